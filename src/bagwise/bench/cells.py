"""Cells: the independent pieces of work of a table, each with a name, a seed and a fingerprint."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bagwise.bench.description import DataSet, Model, Place, Table
from bagwise.exceptions import BagDataError


@dataclass(frozen=True)
class Cell:
    """One model on one fold of one repeat of one data set."""

    table: Table
    data: DataSet
    model: Model
    repeat: int
    fold: int

    @property
    def split_key(self) -> tuple[str, str, int, int]:
        """Cells with the same one are measured on the same split."""
        return self.table.name, self.data.name, self.repeat, self.fold

    @property
    def key(self) -> str:
        """The name of the cell in a file of results."""
        return "/".join(map(str, (self.table.name, self.data.name, self.model.name, self.repeat, self.fold)))

    @property
    def seed(self) -> int:
        """Of the split and of the model: the same for every model of the split."""
        return seed_of(*self.split_key)

    @property
    def fingerprint(self) -> str:
        """Changes with whatever decides the result, other than the code itself."""
        settings = sorted((name, _stable(value)) for name, value in self.model.settings.items())
        model = (self.model.estimator, self.model.published, self.model.evidence, settings)
        parts = (*model, repr(self.table.rule), self.data, self.seed)
        return _digest(repr(parts))

    def place(self, folder: Path) -> Place:
        """Where the data of this cell come from."""
        repeat_seed = seed_of(self.table.name, self.data.name, self.repeat)
        return Place(folder, self.data, self.repeat, self.fold, self.seed, repeat_seed)


def seed_of(*parts: Any) -> int:
    """A seed from names and numbers, the same on every machine."""
    return int(_digest("/".join(map(str, parts)))[:8], 16) % 2**31


@dataclass(frozen=True)
class Choice:
    """Which cells are wanted: the quick ones, some models or data sets, another number of repeats, one repeat (1 …)."""

    quick: bool = False
    only: tuple[str, ...] = ()
    rounds: int | None = None
    repeat: int | None = None


EVERYTHING = Choice()


def cells_of(table: Table, choice: Choice = EVERYTHING) -> list[Cell]:
    """The wanted cells, those of one split together."""
    sets, models = _chosen(table, choice)
    repeats, folds = _extent(table, choice)
    return [
        Cell(table, data, model, repeat, fold)
        for repeat in repeats
        for data in sets
        for fold in range(folds)
        for model in models
        if _takes_part(model, data, repeat, choice)
    ]


def check_names(tables: Iterable[Table], only: Sequence[str]) -> None:
    """Every name after ``--only`` must be a model or a data set of one of the tables."""
    known = [name for table in tables for name in (*_names(table.models), *_names(table.sets))]
    for name in only:
        if name not in known:
            raise BagDataError(
                f"--only {name}: there is no such model or data set; there are {', '.join(dict.fromkeys(known))}."
            )


def _chosen(table: Table, choice: Choice) -> tuple[list[DataSet], list[Model]]:
    sets = [data for data in table.sets if not choice.quick or data.name in table.quick.sets]
    models = [model for model in table.models if not choice.quick or model.quick]
    return _restricted(sets, choice.only, _names(table.sets)), _restricted(models, choice.only, _names(table.models))


def _restricted(things: list[Any], only: Sequence[str], names: Sequence[str]) -> list[Any]:
    """Those that are named, or all where none of their kind is."""
    wanted = [name for name in only if name in names]
    return [thing for thing in things if not wanted or thing.name in wanted]


def _extent(table: Table, choice: Choice) -> tuple[range, int]:
    usual = table.quick.repeats if choice.quick else table.repeats
    folds = min(table.quick.folds, table.rule.folds) if choice.quick else table.rule.folds
    repeats = range(usual if choice.rounds is None else choice.rounds)
    return (repeats if choice.repeat is None else repeats[choice.repeat - 1 : choice.repeat]), folds


def _takes_part(model: Model, data: DataSet, repeat: int, choice: Choice) -> bool:
    in_time = model.rounds is None or choice.rounds is not None or repeat < model.rounds
    return in_time and (not model.sets or data.name in model.sets)


def _names(things: Iterable[Any]) -> list[str]:
    return [thing.name for thing in things]


def _stable(value: Any) -> str:
    """A text for a setting that does not change from run to run."""
    if callable(value):
        arguments = (getattr(value, "args", ()), getattr(value, "keywords", {}))
        return f"{getattr(value, 'func', value).__qualname__}{arguments}"
    return repr(value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
