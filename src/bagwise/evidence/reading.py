"""y in, evidence about counts out: labels, fractions, ranges, mixtures of them, and known instances."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence, possible_counts, possible_entries
from bagwise.evidence.known import has_known, refuse_known_of_several
from bagwise.evidence.labels import label_array, read_labels
from bagwise.evidence.statements import COUNT, FRACTION, LABEL, NONE, Evidence, count, fraction, label, log_potentials
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user

_ADDS_UP = 1e-3  # relative: published shares are rounded


class Stated(NamedTuple):
    """What bags state, one ``Evidence`` for every label column, and how to name the answers."""

    columns: tuple[Evidence, ...]
    classes: NDArray[Any]
    names: tuple[str, ...] | None  # of several label columns
    shares: bool = False  # whether the columns are outcomes, of which every individual has exactly one

    def labels(self) -> NDArray[np.float64]:
        """(B, K) the plain labels, NaN where a bag states something else or nothing."""
        return np.stack([np.where(column.kind == LABEL, column.first, np.nan) for column in self.columns], axis=1)

    def tight(self, totals: NDArray[np.int64]) -> bool:
        """Whether some bag's number of positives is pinned down from both sides."""
        return any(bool(_tight(column, totals).any()) for column in self.columns)


class CountInput(NamedTuple):
    """Evidence ready for inference, and how to name its answers."""

    evidence: CountEvidence
    classes: NDArray[Any]
    names: tuple[str, ...] | None
    tight: bool  # some bag's number of positives is pinned down from both sides


class CountReading(NamedTuple):
    """How a model reads ``y``."""

    kind: str = "label"  # what y holds where it is no ``Evidence``: "label", "fraction" or "count"
    confidence: Any = 1000.0  # of fractions
    label_noise: float = 0.0  # probability that a label is wrong
    plain_labels: bool = False  # labels stay labels in bags with known instances too, for models that want them so
    closed_noise: bool = False  # noisy labels stay labels where there is nothing else, for models that know the noise
    may_doubt: bool = False  # a confidence of 0 is allowed, and takes back what the bag says


def read_counts(y: Any, bags: Bags, given: Any, reading: CountReading) -> CountInput:
    """Interpret ``y`` as the kind of evidence that ``reading`` names; an ``Evidence`` carries its own kinds."""
    return counted(read_stated(y, bags, given, reading), bags, reading)


def counted(stated: Stated, bags: Bags, reading: CountReading) -> CountInput:
    """Statements as tables of counts; bags have a row for every individual."""
    columns = [_one_statement(column, bags, reading, stated.classes) for column in stated.columns]
    if stated.names is None:
        return columns[0]
    evidence = CountEvidence.side_by_side([column.evidence for column in columns])
    return CountInput(evidence, stated.classes, stated.names, any(column.tight for column in columns))


def read_stated(y: Any, bags: Bags, given: Any, reading: CountReading) -> Stated:
    """What every bag states, in one or several label columns."""
    keyed = isinstance(given, Bags)
    outcomes = _outcomes(y, bags, keyed, reading)
    if outcomes is not None:
        refuse_known_of_several(bags)
        return outcomes
    statement = read_statement(y, bags, keyed, reading)
    if statement is not None:
        if not has_known(bags) and (statement.kind == NONE).all():
            warn_user("nothing is known about any bag: the model can only answer with its prior.", BagDataWarning)
        return Stated((statement,), np.array([0, 1]), None)
    _refuse_forgotten_kind(y)
    may_be_empty = isinstance(given, Bags | list | tuple)
    labels = read_labels(y, bags, keyed=keyed, may_be_empty=may_be_empty, alone=not has_known(bags))
    if labels.names is not None:
        refuse_known_of_several(bags)
    return Stated(tuple(label(values) for values in labels.values.T), labels.classes, labels.names)


def _refuse_forgotten_kind(y: Any) -> None:
    """Fractions read as classes are a slip: more than two different numbers between 0 and 1."""
    array = np.asarray(list(y.values()) if isinstance(y, Mapping) else y)
    if array.ndim != 1 or array.dtype.kind != "f":
        return
    seen = np.unique(array[~np.isnan(array)])
    if len(seen) > 2 and seen[0] >= 0.0 and seen[-1] <= 1.0:
        raise BagDataError(
            f"y holds {len(seen)} different numbers between 0 and 1 ({', '.join(f'{v:g}' for v in seen[:3])} …), which "
            "are no labels. If they are fractions of positives, say evidence='fraction'."
        )


def _outcomes(y: Any, bags: Bags, keyed: bool, reading: CountReading) -> Stated | None:
    """Shares (or numbers) of several outcomes, one column each, that add up to everyone; None for another form of y."""
    if reading.kind == "label" or isinstance(y, Evidence) or (np.ndim(y) != 2 and not hasattr(y, "columns")):
        return None
    array = label_array(y, bags, keyed=keyed)
    if array.ndim != 2 or array.shape[1] < (2 if reading.kind == "fraction" else 3):
        return None
    values = _floats(array, reading.kind)
    _check_adds_up(values, bags, reading.kind)
    missing = np.isnan(values).any(axis=1)
    values[missing] = np.nan
    names = tuple(map(str, y.columns)) if hasattr(y, "columns") else tuple(map(str, range(array.shape[1])))
    if reading.kind == "fraction":
        trust = _per_bag(reading.confidence, bags)
        columns = tuple(fraction(column, trust, ids=bags.ids) for column in values.T)
    else:
        columns = tuple(count(column, column, ids=bags.ids) for column in values.T)
    return Stated(columns, np.array([0, 1]), names, shares=True)


def _check_adds_up(values: NDArray[np.float64], bags: Bags, kind: str) -> None:
    """Everyone has one outcome: shares add up to 1, numbers to the total of the bag."""
    wanted = np.ones(len(bags)) if kind == "fraction" else bags.totals.astype(np.float64)
    found = values.sum(axis=1)
    wrong = np.flatnonzero(np.abs(found - wanted) > _ADDS_UP * wanted)
    if len(wrong):
        bag = int(wrong[0])
        raise BagDataError(
            f"bag {bags.ids[bag]!r}: its {values.shape[1]} outcomes add up to {found[bag]:g}, where {wanted[bag]:g} "
            "was expected, for everyone has exactly one of them. Add a column for those who have none (who did not "
            "vote), or fit one outcome alone."
        )


def read_statement(y: Any, bags: Bags, keyed: bool, reading: CountReading) -> Evidence | None:
    """``y`` as evidence, one statement per bag; None where it holds labels of the user's own classes."""
    statement = joined_statement(y, bags, keyed)
    if statement is None and reading.kind == "label":
        return None
    if statement is None:
        statement = _numeric(label_array(y, bags, keyed=keyed), bags, reading.kind, reading.confidence)
        if not reading.may_doubt:
            _refuse_doubt(statement, bags)
    if len(statement) != len(bags):
        raise BagDataError(f"y has {len(statement)} statements, but there are {len(bags)} bags; give one per bag.")
    _check_counts(statement, bags)
    return statement


def holds_positive(statement: Evidence) -> NDArray[np.float64]:
    """1 where a bag is stated to hold a positive, 0 where it is stated to hold none, NaN where neither."""
    kind, first, second = statement.kind, statement.first, statement.second
    some = (first > 0) & (kind != NONE)
    none = np.where(kind == COUNT, second == 0, first == 0) & (kind != NONE)
    return np.select([some, none], [1.0, 0.0], np.nan)


def joined_statement(y: Any, bags: Bags, keyed: bool) -> Evidence | None:
    """An ``Evidence`` given whole, piece by piece, or as one piece for every bag id."""
    if isinstance(y, Evidence):
        return y
    several = isinstance(y, list | tuple | Mapping | pd.Series) or (isinstance(y, np.ndarray) and y.ndim == 1)
    parts = list(y.values() if isinstance(y, Mapping) else y) if several else []
    if not parts or not all(isinstance(part, Evidence) for part in parts):
        return None
    by_id = isinstance(y, Mapping) or (keyed and isinstance(y, pd.Series))
    return Evidence.concat(bags.align(y) if by_id else parts)


def _floats(array: NDArray[Any], kind: str) -> NDArray[np.float64]:
    try:
        if array.ndim == 1 and array.dtype == object and kind == "count":  # pairs, as the values of a dict
            array = np.array(array.tolist(), dtype=object)
        return np.where(pd.isna(array), np.nan, array).astype(np.float64)
    except (TypeError, ValueError):
        raise BagDataError(f"evidence={kind!r}: y must hold numbers (NaN where nothing is known).") from None


def _numeric(array: NDArray[Any], bags: Bags, kind: str, confidence: Any) -> Evidence:
    values = _floats(array, kind)
    if kind == "fraction":
        if values.ndim == 2 and values.shape[1] != 1:
            raise BagDataError(f"evidence='fraction': expected one number per bag, got y of shape {values.shape}.")
        return fraction(values.ravel(), _per_bag(confidence, bags), ids=bags.ids)
    if values.ndim == 1 or values.shape[1] == 1:
        return count(values.ravel(), values.ravel(), ids=bags.ids)
    if values.ndim != 2 or values.shape[1] != 2:
        raise BagDataError(
            "evidence='count': expected y of shape (B,), the number of positives of every bag, or (B, 2), the lowest "
            f"and highest number, got shape {values.shape}."
        )
    return count(values[:, 0], values[:, 1], ids=bags.ids)


def _refuse_doubt(statement: Evidence, bags: Bags) -> None:
    """A fraction without any confidence is more likely a slip than a statement."""
    doubted = (np.asarray(statement.second) == 0) & ~np.isnan(statement.first) & (statement.kind == NONE)
    if doubted.any():
        bag = bags.ids[int(np.flatnonzero(doubted)[0])]
        raise BagDataError(
            f"bag {bag!r}: found 0; a confidence is a positive number. Where nothing is known give NaN in y."
        )


def _per_bag(confidence: Any, bags: Bags) -> NDArray[np.float64]:
    try:
        values = np.asarray(confidence, dtype=np.float64)
    except (TypeError, ValueError):
        raise BagDataError(f"confidence={confidence!r}: expected a positive number, or one per bag.") from None
    if values.ndim > 0 and values.shape != (len(bags),):
        raise BagDataError(f"confidence: expected a number or one per bag ({len(bags)}), got shape {values.shape}.")
    return values


def _one_statement(statement: Evidence, bags: Bags, reading: CountReading, classes: NDArray[Any]) -> CountInput:
    sizes = bags.sizes
    known = np.full(bags.n_instances, np.nan) if bags.known is None else bags.known
    with_known = np.add.reduceat((~np.isnan(known)).astype(np.int64), bags.offsets[:-1]) > 0
    closed = reading.label_noise == 0.0 or (reading.closed_noise and np.isin(statement.kind, (LABEL, NONE)).all())
    plain = (statement.kind == LABEL) & (reading.plain_labels | (~with_known & closed))
    by_table = ~plain & ((statement.kind != NONE) | (with_known & (not reading.plain_labels)))
    table = None
    if by_table.any() or with_known.any():  # plain labels alone need no table, and no instance contradicts them
        table = log_potentials(statement, sizes, reading.label_noise)
        _check_possible(table, known, bags)
    labels = np.where(plain, statement.first, np.nan)[:, None]
    noise = reading.label_noise if reading.closed_noise else 0.0
    evidence = CountEvidence(labels, sizes, (table,), (by_table,), known, noise)
    return CountInput(evidence, classes, None, bool(_tight(statement, sizes).any()))


def _check_counts(statement: Evidence, bags: Bags) -> None:
    wrong = np.flatnonzero((statement.kind == COUNT) & (statement.second > bags.totals))
    if len(wrong):
        bag = int(wrong[0])
        raise BagDataError(
            f"bag {bags.ids[bag]!r} has {bags.totals[bag]} instances, but its highest number of positives is given as "
            f"{statement.second[bag]:g}; it can be {bags.totals[bag]} at most."
        )


def _check_possible(table: NDArray[np.float64], known: NDArray[np.float64], bags: Bags) -> None:
    """What is known of the instances must not contradict what is known of their bag."""
    starts = bags.offsets[:-1] + np.arange(len(bags))
    best = np.maximum.reduceat(np.where(possible_entries(known, bags.sizes), table, -np.inf), starts)
    wrong = np.flatnonzero(best == -np.inf)
    if len(wrong):
        bag = int(wrong[0])
        rows = np.arange(bags.offsets[bag], bags.offsets[bag + 1])
        allowed = np.flatnonzero(table[starts[bag] : starts[bag] + len(rows) + 1] > -np.inf)
        lowest = int(possible_counts(known[rows], bags.sizes[[bag]])[0][0])
        culprit = 1.0 if allowed.max() < lowest else 0.0  # too many known positives, or too many known negatives
        row = int(rows[known[rows] == culprit][0])
        raise BagDataError(
            f"bag {bags.ids[bag]!r} contradicts its instances: what is known of the bag allows {allowed.min()} to "
            f"{allowed.max()} positives, but among its instances {(known[rows] == culprit).sum()} are known to be "
            f"{culprit:g}, the first in row {bags.rows[row]} of the table. Correct one of the two."
        )


def _tight(statement: Evidence, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bags whose number of positives is held from both sides more closely than their instances vary by themselves.

    A fraction with confidence χ has the spread of χ counted instances, so χ above the bag's own size pins the count.
    """
    first, second = statement.first, statement.second
    fractions = (statement.kind == FRACTION) & (first > 0) & (first < 1) & (second > sizes)
    ranges = (statement.kind == COUNT) & (first > 0) & (second < sizes)
    tight: NDArray[np.bool_] = (fractions | ranges) & (sizes > 1)
    return tight
