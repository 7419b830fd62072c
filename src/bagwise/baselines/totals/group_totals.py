"""What every method for totals starts from: shares of the groups in bags, and the share of positives of every bag."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]


class GroupTotals(NamedTuple):
    """People of every group in every bag, (B, G), and the share of positives of every bag, (B,)."""

    people: Floats
    share: Floats

    @property
    def composition(self) -> Floats:
        """(B, G) share of every group."""
        found: Floats = self.people / self.people.sum(axis=1, keepdims=True)
        return found


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Rates of the groups in every bag, (B, G), NaN where a group has nobody; and in all bags together, (G,)."""

    groups: tuple[str, ...]
    mean: Floats
    lower: Floats
    upper: Floats
    overall_mean: Floats
    overall_lower: Floats
    overall_upper: Floats


class RatesFromTotals(BaseEstimator):
    """An estimator of group rates. A class derived from it writes ``_fit`` and ``_rates``."""

    def fit(self, bags: Any, y: Any) -> Self:
        """Learn from bags as ``Bags.from_totals`` makes them, and the share of positives of each (NaN: unknown)."""
        checked = as_bags(bags)
        self.groups_ = _group_names(checked)
        self.n_features_in_ = checked.n_features
        totals = read_totals(checked, y)
        seen = ~np.isnan(totals.share)
        if not seen.any():
            raise BagDataError("nothing is known of any bag: a share of positives is needed of some of them.")
        self._fit(GroupTotals(totals.people[seen], totals.share[seen]))
        return self

    def predict_rates(self, bags: Any, y: Any, level: float = 0.9) -> GroupRates:
        """Rates of the groups in bags whose share of positives is known, with an interval of ``level``."""
        check_is_fitted(self, "groups_")
        checked = as_bags(bags)
        if checked.n_features != self.n_features_in_:
            raise BagDataError(f"bags have {checked.n_features} groups; the fit had {self.n_features_in_}.")
        if not 0.0 < level < 1.0:
            raise BagDataError(f"level={level!r}: expected a number between 0 and 1.")
        totals = read_totals(checked, y)
        missing = np.flatnonzero(np.isnan(totals.share))
        if len(missing):
            raise BagDataError(f"bag {checked.ids[missing[0]]!r}: its share of positives is missing; leave it out.")
        parts = self._rates(totals, level)
        empty = totals.people == 0
        return GroupRates(self.groups_, *(np.where(empty, np.nan, part) for part in parts[:3]), *parts[3:])

    def _fit(self, totals: GroupTotals) -> None:
        raise NotImplementedError

    def _rates(self, totals: GroupTotals, level: float) -> tuple[Floats, ...]:
        """Mean, lower and upper of every bag and group, then of all bags together."""
        raise NotImplementedError


def read_totals(bags: Bags, y: Any) -> GroupTotals:
    """Rows that say which group they are by a 1 in its column; shares between 0 and 1."""
    rows = np.asarray(bags.X, dtype=np.float64)
    sound = np.isin(rows, (0.0, 1.0)).all(axis=1) & (rows.sum(axis=1) == 1.0)
    if not sound.all():
        raise BagDataError(
            f"row {bags.rows[int(np.argmin(sound))]}: expected a 1 in the column of its group and 0 in all others, as "
            "Bags.from_totals makes them."
        )
    weight = np.ones(bags.n_instances) if bags.weight is None else bags.weight.astype(np.float64)
    return GroupTotals(np.add.reduceat(rows * weight[:, None], bags.offsets[:-1]), _shares(bags, y))


def over_people(values: Floats, people: Floats) -> Floats:
    """Rates of all bags together: weighted by the people of the group, (…, B, G) to (…, G)."""
    found: Floats = (np.where(people > 0, values, 0.0) * people).sum(axis=-2) / people.sum(axis=0)
    return found


def bounds_of_rates(totals: GroupTotals) -> tuple[Floats, Floats]:
    """(B, G) the least and the largest rate of every group that the totals allow (Duncan & Davis 1953).

    With share x of the group and t of positives: at least (t - (1 - x)) / x, if all others are positive; at most t / x.
    """
    x, t = totals.composition, totals.share[:, None]
    safe = np.where(x > 0, x, 1.0)
    return np.clip((t - (1.0 - x)) / safe, 0.0, 1.0), np.clip(t / safe, 0.0, 1.0)


def _shares(bags: Bags, y: Any) -> Floats:
    listed = bags.align(y) if isinstance(y, Mapping | pd.Series) else y
    share = np.asarray(listed, dtype=np.float64)
    if share.shape != (len(bags),):
        raise BagDataError(f"y: expected one share of positives per bag ({len(bags)}), got shape {share.shape}.")
    wrong = np.flatnonzero((share < 0.0) | (share > 1.0))
    if len(wrong):
        raise BagDataError(f"bag {bags.ids[wrong[0]]!r}: its share is {share[wrong[0]]:g}; expected 0 to 1.")
    return share


def _group_names(bags: Bags) -> tuple[str, ...]:
    return tuple(bags.feature_names or map(str, range(bags.n_features)))
