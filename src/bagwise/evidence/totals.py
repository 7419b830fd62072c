"""What bags of weighted rows state about their numbers of positives, as arrays that do not grow with the totals."""

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.cells import cell_numbers
from bagwise.evidence.statements import COUNT, FRACTION, LABEL, NONE, Evidence, log_beta_density, log_potentials
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALL_TOTAL = 100  # up to so many individuals a bag states a table, and its law is exact
_PINNED = 0.05  # a variance of the number of positives below this means that the number itself is known
_GRID = np.linspace(-9.0, 9.0, 301)  # standard deviations of a fraction over which its moments are taken


class TotalStatements(NamedTuple):
    """Statements of bags in which a row stands for ``weight`` individuals; individuals that are known are set apart."""

    kind: Ints  # (B,) NONE, LABEL, FRACTION (a number of positives, more or less exactly) or COUNT (a range)
    mean: Floats  # (B,) of FRACTION: the number of positives among those not known …
    variance: Floats  # … and how uncertain it is, 0 where it is exact; of LABEL the label is the mean
    low: Floats  # (B,) of COUNT: the range, among those not known
    high: Floats
    tables: Floats  # (S, M) log ψ of the bags with a small total, −inf beyond it; M is odd
    small: Ints  # (S,) their numbers
    free: Floats  # (N,) how many individuals of a row are not known
    known: Floats  # (N,) 0, 1 or NaN
    weight: Floats  # (N,) how many individuals a row stands for
    cell: Ints  # (N,) number of its cell, bag after bag: rows of one bag with the same features
    offsets: Ints
    label_noise: float

    def of_bags(self, chosen: Ints) -> "TotalStatements":
        """The statements of some bags."""
        mask = np.zeros(len(self.kind), dtype=bool)
        mask[chosen] = True
        if not (np.diff(chosen) > 0).all():
            raise ValueError("bags must be chosen in their order")
        rows = np.repeat(mask, np.diff(self.offsets))
        place = np.cumsum(mask) - 1
        kept = mask[self.small]
        per_bag = {name: getattr(self, name)[mask] for name in ("kind", "mean", "variance", "low", "high")}
        per_row = {name: getattr(self, name)[rows] for name in ("free", "known", "weight")}
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[mask])]).astype(np.int64)
        cell = np.unique(self.cell[rows], return_inverse=True)[1]
        own = {"tables": self.tables[kept], "small": place[self.small[kept]], "offsets": offsets, "cell": cell}
        return TotalStatements(**per_bag, **per_row, **own, label_noise=self.label_noise)


class StatedTotals(NamedTuple):
    """The number of positives that every bag states, or its mean, (B, K), NaN where none; names of the outcomes."""

    expected: Floats
    outcomes: tuple[str, ...]
    shares: bool  # whether every individual has exactly one of the outcomes


def expected_totals(columns: tuple[TotalStatements, ...], names: tuple[str, ...], shares: bool) -> StatedTotals:
    """What bags state, as numbers: those known to be positive included, the middle of a range."""
    found = []
    for column in columns:
        known = np.add.reduceat(np.where(column.known == 1, column.weight, 0.0), column.offsets[:-1])
        middle = np.where(column.kind == COUNT, 0.5 * (column.low + column.high), column.mean)
        found.append(np.where(np.isin(column.kind, (FRACTION, COUNT)), middle + known, np.nan))
    return StatedTotals(np.stack(found, axis=1), names, shares)


def seen_totals(bags: Bags, expected: Floats) -> str:
    """A short text that tells bags and the numbers that they state, (B, K), from others."""
    found = hashlib.sha256("\0".join(bags.ids).encode())
    for part in (bags.offsets, bags.totals, expected):
        found.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return found.hexdigest()[:32]


def total_statements(statement: Evidence, bags: Bags, label_noise: float = 0.0) -> TotalStatements:
    """The statements of bags, whatever their totals; one that their known individuals contradict is an error."""
    weight = np.ones(bags.n_instances) if bags.weight is None else bags.weight.astype(np.float64)
    known = np.full(bags.n_instances, np.nan) if bags.known is None else np.array(bags.known)
    free = np.where(np.isnan(known), weight, 0.0)
    positive = np.add.reduceat(np.where(known == 1, weight, 0.0), bags.offsets[:-1])
    unknown = np.add.reduceat(free, bags.offsets[:-1])
    mean, variance = _moments(statement, bags.totals.astype(np.float64))
    low, high = statement.first - positive, statement.second - positive
    kind = np.where((statement.kind == COUNT) & (statement.first == statement.second), FRACTION, statement.kind)
    kind = np.where((kind == COUNT) & (low <= 0) & (high >= unknown), NONE, kind)
    kind = np.where((kind == LABEL) & (statement.first == 1) & (positive > 0), NONE, kind)
    mean = np.where(kind == LABEL, statement.first, mean - positive)
    _refuse_contradiction(kind, mean, variance, low, high, unknown, positive, bags)
    kind = np.where((unknown == 0), NONE, kind)
    small, tables = _tables(statement, bags, kind, positive, unknown, label_noise)
    people = (free, known, weight, cell_numbers(bags))
    parts = (kind, mean, variance, low, high, tables, small, *people, bags.offsets, label_noise)
    return TotalStatements(*parts)


def _moments(statement: Evidence, totals: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the number of positives under the normalised potential; an exact number has variance 0.

    A fraction m of confidence χ is a density in the share s, Beta(m; χs + 1, χ(1 − s) + 1), with a spread near
    √(m(1 − m)/χ). Shares of exactly 0 and 1 are taken literally.
    """
    exact = statement.kind == COUNT
    mean, variance = np.where(exact, statement.first, 0.0), np.zeros(len(totals))
    inner = np.flatnonzero((statement.kind == FRACTION) & (statement.first > 0) & (statement.first < 1))
    m, trust = statement.first[inner, None], statement.second[inner, None]
    share = np.clip(m + _GRID * np.sqrt((m * (1.0 - m) + 1.0 / (trust + 1.0)) / (trust + 1.0)), 0.0, 1.0)
    logs = log_beta_density(m, share, trust)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * np.gradient(share, axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    centre = (weights * share).sum(axis=1)
    spread = (weights * np.square(share - centre[:, None])).sum(axis=1)
    mean[inner], variance[inner] = totals[inner] * centre, np.square(totals[inner]) * spread
    edge = (statement.kind == FRACTION) & ((statement.first == 0) | (statement.first == 1))
    pinned = (statement.kind == FRACTION) & (variance < _PINNED)
    mean = np.where(edge | pinned, np.round(totals * np.nan_to_num(statement.first)), mean)
    return mean, np.where(pinned, 0.0, variance)


def _tables(
    statement: Evidence, bags: Bags, kind: Ints, positive: Floats, unknown: Floats, label_noise: float
) -> tuple[Ints, Floats]:
    """The bags of small totals that state numbers, and log ψ at every number of positives among those not known."""
    small = np.flatnonzero(np.isin(kind, (FRACTION, COUNT)) & (bags.totals <= SMALL_TOTAL))
    widest = int(unknown[small].max()) + 1 if len(small) else 1
    tables = np.full((len(small), widest + 1 - widest % 2), -np.inf)
    flat = log_potentials(statement[small], bags.totals[small], label_noise) if len(small) else np.zeros(0)
    count = np.arange(tables.shape[1])
    inside = count <= unknown[small, None]
    starts = np.cumsum(bags.totals[small] + 1) - bags.totals[small] - 1
    place = starts[:, None] + positive[small, None].astype(np.int64) + count
    tables[inside] = flat[place[inside]]
    return small, tables


def _refuse_contradiction(
    kind: Ints,
    mean: Floats,
    variance: Floats,
    low: Floats,
    high: Floats,
    unknown: Floats,
    positive: Floats,
    bags: Bags,
) -> None:
    """What is known of single individuals must leave the statement possible."""
    exact = (kind == FRACTION) & (variance == 0) & ((mean < 0) | (mean > unknown))
    ranges = (kind == COUNT) & ((high < 0) | (low > unknown))
    labels = (kind == LABEL) & np.where(mean == 1, unknown == 0, positive > 0)
    wrong = np.flatnonzero(exact | ranges | labels)
    if len(wrong):
        bag = int(wrong[0])
        raise BagDataError(
            f"bag {bags.ids[bag]!r} contradicts its instances: {positive[bag]:g} of its {bags.totals[bag]} individuals "
            f"are known to be positive and {unknown[bag]:g} are not known, which its statement does not allow. Correct "
            "one of the two."
        )
