"""What a table is: data sets, protocol, models with settings, metrics, published figures and where they stand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DataSet:
    """A data set of a table.

    ``file`` is its archive in the data folder, without ".npz" (empty: generated), ``key`` what else the protocol needs
    to know. ``rows`` are the rows of the table that it fills: itself, or one per class.
    """

    name: str
    file: str = ""
    key: str = ""
    rows: tuple[str, ...] = ()

    @property
    def row_names(self) -> tuple[str, ...]:
        """The rows of the table that this data set fills."""
        return self.rows or (self.name,)


@dataclass(frozen=True)
class Model:
    """A column of a table: an estimator of bagwise by name, and its settings, or the changes to its ``published()``.

    ``evidence`` is what the training bags state to it, ``rounds`` the most repeats it takes part in, ``quick`` says
    whether it runs in the quick version, ``sets`` restricts it to some data sets (two entries of one name have
    different settings for different sets). A setting that is a function is called for its value when the model is
    built.
    """

    name: str
    estimator: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    evidence: str = "label"
    rounds: int | None = None
    quick: bool = True
    sets: tuple[str, ...] = ()
    published: bool = False


class Published(NamedTuple):
    """A figure in a paper; ``spread`` is what stands behind its ±."""

    place: str
    row: str
    model: str
    metric: str
    value: float
    spread: float | None = None


@dataclass(frozen=True)
class Place:
    """Where a cell's data come from: one fold of one repeat of one data set, and the random numbers that go with it."""

    folder: Path
    data: DataSet
    repeat: int
    fold: int
    seed: int
    repeat_seed: int  # the same for all folds of a repeat


@dataclass(frozen=True)
class Part:
    """Bags to predict, with the truth about them (NaN unknown), one column per row of the table."""

    bags: Bags
    rows: tuple[str, ...]
    bag_truth: Floats | None = None
    instance_truth: Floats | None = None


@dataclass(frozen=True)
class Split:
    """What there is to learn from, bags and what they state, by kind of evidence, and the parts to predict.

    ``training`` holds the truth about training bags that state no more than candidates.
    """

    evidence: Mapping[str, tuple[Bags, Any]]
    parts: tuple[Part, ...]
    training: Part | None = None


class Measured(NamedTuple):
    """What came of a fitted model: metrics of every row of the table, and the scores behind them for pooling."""

    metrics: dict[str, dict[str, float]]
    scores: dict[str, dict[str, list[float]]]


class SplitRule(Protocol):
    """How a data set is cut and prepared. Its ``repr`` is part of the identity of a cell."""

    def __hash__(self) -> int: ...

    @property
    def folds(self) -> int:
        """Folds of one repeat."""
        ...

    def split(self, place: Place) -> Split:
        """One fold, ready for a model."""
        ...


@dataclass(frozen=True)
class Quick:
    """The short version of a table: some data sets, some folds, some repeats; the cells are those of the full one."""

    sets: tuple[str, ...]
    repeats: int = 1
    folds: int = 1


@dataclass(frozen=True)
class Table:
    """One table (or figure) of a paper, as it is re-run here."""

    name: str
    title: str
    source: str  # paper and place of the figures
    protocol: str  # in words; how the published one differs
    rule: SplitRule
    measure: Callable[[Any, Split], Measured]
    sets: tuple[DataSet, ...]
    models: tuple[Model, ...]
    metrics: tuple[str, ...]
    quick: Quick
    published: tuple[Published, ...] = ()
    repeats: int = 1
    published_repeats: int = 1
    averaged: bool = True  # whether the mean over rows says anything
    pooled: bool = False  # whether every bag is tested once per repeat, so that folds can be pooled
    comparisons: tuple[tuple[str, str], ...] = ()  # pairs of models set against each other
    absent: tuple[str, ...] = ()  # what cannot be rebuilt, and why
    remarks: tuple[str, ...] = ()

    @property
    def model_names(self) -> list[str]:
        """The columns, each once."""
        return list(dict.fromkeys(model.name for model in self.models))


def typed(place: str, columns: Sequence[tuple[str, str]], text: str, scale: float = 1.0) -> tuple[Published, ...]:
    """Figures as typed from a paper: one line per row, its name and one entry per column.

    ``columns`` are (model, metric); an entry is a number, ``number±spread``, or ``-`` where there is none.
    """
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        row, *entries = line.split()
        for (model, metric), entry in zip(columns, entries, strict=True):
            if entry != "-":
                value, _, spread = entry.partition("±")
                amount = float(spread) * scale if spread else None
                found.append(Published(place, row, model, metric, float(value) * scale, amount))
    return tuple(found)
