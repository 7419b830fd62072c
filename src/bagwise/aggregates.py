"""Rates of groups from totals: a table of groups and outcomes with ranges, and what stands beside it.

``group_table`` answers for the bags of a fit: how many of each group had each outcome, in all bags, in some of them or
in every single one. Beside each answer stand the bounds that arithmetic alone allows, Goodman's regression, and what
would follow if all groups of a bag were alike. ``composition_check`` measures how much the answer rests on the
assumption that rates do not go with the composition of a bag.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from bagwise._validation import shorten
from bagwise.bags import Bags
from bagwise.evidence.groups import group_columns
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user
from bagwise.models._base.chain_answers import for_arviz
from bagwise.predict.counts import check_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WHOLE = "all bags"
CLEAR = 3.0  # nats of log evidence by which one model is clearly better than another
_RAKING = 30  # rounds that make draws of several outcomes add up to everyone
_FIELDS = ("mean", "lower", "upper", "least", "most", "goodman", "alike")


@dataclass(frozen=True, eq=False)
class GroupTable:
    """Rates of groups: arrays of shape (sets of bags, groups, outcomes); NaN where a group has nobody."""

    sets: tuple[str, ...]
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    mean: Floats
    lower: Floats  # of the interval of ``level``
    upper: Floats
    least: Floats  # bounds: what the totals leave possible, whatever one assumes
    most: Floats
    goodman: Floats  # Goodman's regression, the same for every set; it may leave 0 … 1
    alike: Floats  # if all groups of a bag had its share
    people: Ints  # (sets, groups)
    draws: Floats  # (S, sets, groups, outcomes)
    level: float

    def to_frame(self) -> pd.DataFrame:
        """One line per set, group and outcome."""
        index = pd.MultiIndex.from_product([self.sets, self.groups, self.outcomes], names=["set", "group", "outcome"])
        frame = pd.DataFrame({name: getattr(self, name).ravel() for name in _FIELDS}, index=index)
        frame.insert(0, "people", np.repeat(self.people.ravel(), len(self.outcomes)))
        return frame.reset_index()

    def to_arviz(self) -> Any:
        """The draws for ArviZ (which must be installed): one chain of "rate", by set, group and outcome."""
        return for_arviz({"posterior": {"rate": self.draws[None]}})


def group_table(
    model: Any,
    bags: Bags,
    y: Any,
    *,
    groups: Sequence[str] | None = None,
    sets: Any = None,
    level: float = 0.9,
    n_draws: int = 400,
) -> GroupTable:
    """Rates of the groups in bags that the model was fitted to, given what the bags state.

    Other bags than those of the fit are refused: what they state is not in the model yet.

    Parameters
    ----------
    model : a fitted BagGP
    bags, y : the bags of the fit and what they state, as given to ``fit``
    groups : names of the columns of 0 and 1 that say which group a row belongs to; None takes all such columns
    sets : None for all bags together, "bags" for every single one, or a dict from names to ids of bags
    level : what an interval is to cover
    n_draws : number of joint draws that everything is taken from
    """
    tail = 0.5 * (1.0 - check_level(level))
    _refuse_unseen(model, bags, y)
    names, member = _membership(bags, groups)
    chosen = _sets(bags, sets)
    stated = model.stated_totals(bags, y)
    cells = model.draw_cells(bags, y, n_draws)
    if stated.shares and cells.shape[2] > 1:
        cells = _raked(cells, bags, stated.expected)
    summed = _Sums(bags, member, chosen)
    people = summed.of(_weights(bags)[:, None])[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.stack([summed.of(draw) for draw in cells]) / people[None, :, :, None]
        least, most = (summed.of(part) / people[..., None] for part in _bounds(bags, member, stated.expected))
        share = stated.expected / bags.totals[:, None]
        alike = summed.of(_weights(bags)[:, None] * share[bags.index]) / people[..., None]
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    goodman = np.broadcast_to(_goodman(bags, member, share), least.shape).copy()
    own = (draws.mean(axis=0), low, high, least, most, goodman, alike)
    return GroupTable(tuple(chosen), names, stated.outcomes, *own, people.astype(np.int64), draws, level)


def _refuse_unseen(model: Any, bags: Bags, y: Any) -> None:
    if not model.abilities.totals:
        raise BagDataError(f"rates of groups are told by BagGP; {type(model).__name__} has no such answer.")
    if not model.has_seen(bags, y):
        raise BagDataError(
            "rates of groups: these are not the bags that the model was fitted to, or they state something else. "
            "Fit a model to them: model.fit(bags, y). To ask about some of the bags of the fit use sets={name: [ids]}."
        )


# ---------------------------------------------------------------- composition


class CompositionCheck(NamedTuple):
    """The table as it is, and with the composition of the bag as a feature; ``differs`` (groups, outcomes)."""

    without: GroupTable
    with_composition: GroupTable
    differs: NDArray[np.bool_]
    gain: float  # nats of log evidence by which the composition as a feature explains the statements better
    sentence: str


def composition_check(
    model: Any, bags: Bags, y: Any, *, groups: Sequence[str] | None = None, level: float = 0.9, n_draws: int = 400
) -> CompositionCheck:
    """How much rests on the assumption that rates do not go with the composition of a bag.

    Fits the model a second time, with the shares of the groups in the bag as further features, and compares the rates
    of all bags together. Warns, in a plain sentence, where the rate of the second lies outside of the range of the
    first, unless the log evidence clearly prefers the first (by more than 3 nats); then the sentence says that.
    Rates that go with the composition in a straight line cannot be noticed: they look like other constant rates.
    """
    plain = group_table(model, bags, y, groups=groups, level=level, n_draws=n_draws)
    names, member = _membership(bags, groups)
    composition = _shares(bags, member)[bags.index, :-1]
    columns = bags.feature_names or tuple(map(str, range(bags.n_features)))
    wider = bags.with_features(
        np.hstack([np.asarray(bags.X), composition]), [*columns, *(f"share of {name}" for name in names[:-1])]
    )
    second = clone(model).fit(wider, y)
    other = group_table(second, wider, y, groups=names, level=level, n_draws=n_draws)
    gain = float(np.sum(second.log_evidence_) - np.sum(model.log_evidence_))
    outside = (other.mean[0] < plain.lower[0]) | (other.mean[0] > plain.upper[0])
    apart: NDArray[np.bool_] = outside & (gain > -CLEAR)
    sentence = _verdict(plain, other, outside, gain)
    if apart.any():
        warn_user(sentence, BagDataWarning)
    return CompositionCheck(plain, other, apart, gain, sentence)


def _verdict(plain: GroupTable, other: GroupTable, outside: NDArray[np.bool_], gain: float) -> str:
    if not outside.any():
        gap = np.nanmax(np.abs(plain.mean[0] - other.mean[0]))
        return (
            f"With the composition of the bags as a feature the rates change by {gap:.2f} at most, which is within "
            "their ranges. This does not prove that rates do not go with composition; the bounds show what is certain."
        )
    group, outcome = np.argwhere(outside)[0]
    support = "do not support" if gain > -CLEAR else "support, but cannot prove"
    return (
        f"The rate of {plain.groups[group]!r} rests on an assumption that the data {support}: that rates do not "
        f"go with the composition of a bag. It is {_ranged(plain, group, outcome)} under this assumption and "
        f"{_ranged(other, group, outcome)} with the composition as a feature (log evidence {_signed(gain)}). "
        f"Only the bounds, {plain.least[0, group, outcome]:.2f} to {plain.most[0, group, outcome]:.2f}, are certain."
    )


def _signed(nats: float) -> str:
    return f"{'+' if nats >= 0 else '−'}{abs(nats):.1f} nats"


def _ranged(table: GroupTable, group: int, outcome: int) -> str:
    mean, low, high = (part[0, group, outcome] for part in (table.mean, table.lower, table.upper))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


# ---------------------------------------------------------------- groups and sets


def _weights(bags: Bags) -> Floats:
    return np.ones(bags.n_instances) if bags.weight is None else bags.weight.astype(np.float64)


def _membership(bags: Bags, groups: Sequence[str] | None) -> tuple[tuple[str, ...], Ints]:
    """Names of the groups, and the number of the group of every row."""
    columns = bags.feature_names or tuple(map(str, range(bags.n_features)))
    found = [columns[number] for number in group_columns(bags, most=None)] if groups is None else groups
    names = tuple(found or columns)
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise BagDataError(f"groups: there is no feature {shorten(unknown)}; there are {shorten(columns, 12)}.")
    indicators = np.asarray(bags.X)[:, [columns.index(name) for name in names]]
    sound = np.isin(indicators, (0.0, 1.0)).all(axis=1) & (indicators.sum(axis=1) == 1)
    if not sound.all():
        row = int(np.flatnonzero(~sound)[0])
        raise BagDataError(
            f"groups: every row must belong to exactly one group, with a 1 in its column and 0 in the others; row "
            f"{bags.rows[row]} of the table does not. Name the columns of the groups with groups=[...]."
        )
    return names, indicators.argmax(axis=1)


def _sets(bags: Bags, sets: Any) -> dict[str, Ints]:
    """Numbers of the bags of every set."""
    if sets is None:
        return {WHOLE: np.arange(len(bags))}
    if isinstance(sets, str) and sets == "bags":
        return {name: np.array([number]) for number, name in enumerate(bags.ids)}
    if not isinstance(sets, Mapping) or not sets:
        raise BagDataError("sets: expected None, 'bags', or a dict from names of sets to ids of bags.")
    place = {name: number for number, name in enumerate(bags.ids)}
    for name, members in sets.items():
        strange = [str(bag) for bag in members if str(bag) not in place]
        if strange or len(list(members)) == 0:
            raise BagDataError(
                f"sets: {name!r} names {shorten(strange)}, but there is no such bag (or names no bag at all)."
            )
    return {str(name): np.array([place[str(bag)] for bag in members]) for name, members in sets.items()}


class _Sums:
    """Sums over the rows of every set and group."""

    def __init__(self, bags: Bags, member: Ints, sets: dict[str, Ints]) -> None:
        self._n_groups, self._n_bags = int(member.max()) + 1, len(bags)
        self._cell, self._sets = bags.index * self._n_groups + member, list(sets.values())

    def of(self, rows: Floats) -> Floats:
        """(N, K) to (sets, groups, K)."""
        cells = np.zeros((self._n_bags * self._n_groups, rows.shape[1]))
        np.add.at(cells, self._cell, rows)
        per_bag = cells.reshape(self._n_bags, self._n_groups, -1)
        return np.stack([per_bag[bags].sum(axis=0) for bags in self._sets])


def _shares(bags: Bags, member: Ints) -> Floats:
    """(B, groups) share of every group in the bag."""
    everyone = {name: np.array([number]) for number, name in enumerate(bags.ids)}
    return _Sums(bags, member, everyone).of(_weights(bags)[:, None])[..., 0] / bags.totals[:, None]


# ---------------------------------------------------------------- beside the answer


def _bounds(bags: Bags, member: Ints, expected: Floats) -> tuple[Floats, Floats]:
    """The method of bounds (Duncan and Davis 1953): least and greatest number of positives behind every row, (N, K)."""
    group = bags.index * (int(member.max()) + 1) + member
    people = np.bincount(group, _weights(bags), minlength=len(bags) * (int(member.max()) + 1))[group][:, None]
    own = _weights(bags)[:, None] / np.maximum(people, 1.0)  # rows of one group of a bag share what it has
    stated, others = expected[bags.index], bags.totals[bags.index][:, None] - people
    silent = np.isnan(stated)  # of a bag that states nothing, nobody or everybody
    least, most = np.maximum(stated - others, 0.0), np.minimum(stated, people)
    return own * np.where(silent, 0.0, least), own * np.where(silent, people, most)


def _goodman(bags: Bags, member: Ints, share: Floats) -> Floats:
    """Goodman's regression (1953): shares of bags on shares of groups, without a constant, weighted by totals."""
    stated = ~np.isnan(share).any(axis=1)
    root = np.sqrt(bags.totals[stated].astype(np.float64))[:, None]
    found, *_ = np.linalg.lstsq(_shares(bags, member)[stated] * root, share[stated] * root, rcond=None)
    return np.asarray(found)


def _raked(cells: Floats, bags: Bags, expected: Floats) -> Floats:
    """Draws in which outcomes add up to the individuals of a row and rows to the number that the bag states."""
    people, start = _weights(bags)[None, :, None], bags.offsets[:-1]
    cells = np.maximum(cells, 1e-6 * people)
    for _ in range(_RAKING):
        wanted = expected[None] / np.maximum(np.add.reduceat(cells, start, axis=1), 1e-12)
        cells = cells * wanted[:, bags.index]
        cells = cells * people / np.maximum(cells.sum(axis=2, keepdims=True), 1e-12)
    return cells
