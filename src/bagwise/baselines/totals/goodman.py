"""Goodman's ecological regression: one rate per group, the same in every bag."""

import numpy as np
from scipy import stats

from bagwise.baselines.totals.group_totals import Floats, GroupTotals, RatesFromTotals
from bagwise.models._base.saved import ModelCard


class Goodman(RatesFromTotals):
    """Goodman's regression: shares of positives on shares of groups, without a constant, weighted by people.

    It takes every group to have one rate in all bags, and rates may come out below 0 or above 1. Where rates go with
    the composition of a bag (the ecological fallacy) it is wrong and says nothing of it. The interval is that of least
    squares: of the common rate, not of the rate in a bag.

    Attributes
    ----------
    rates_ : ndarray of shape (G,)
        The rate of every group.
    groups_ : tuple of str
        Names of the groups.
    n_features_in_ : int
        Number of groups.

    References
    ----------
    Goodman, Ecological regressions and behavior of individuals, American Sociological Review 18, 1953.
    """

    card = ModelCard("goodman", ("fraction",), "Goodman 1953", "own")

    def _fit(self, totals: GroupTotals) -> None:
        root = np.sqrt(totals.people.sum(axis=1))
        design, target = totals.composition * root[:, None], totals.share * root
        self.rates_ = np.linalg.lstsq(design, target, rcond=None)[0]
        rest = max(len(target) - len(self.rates_), 1)
        spread = np.sum(np.square(target - design @ self.rates_)) / rest
        self._errors = np.sqrt(spread * np.diag(np.linalg.pinv(design.T @ design)))
        self._rest = rest

    def _rates(self, totals: GroupTotals, level: float) -> tuple[Floats, ...]:
        reach = stats.t.ppf(0.5 + 0.5 * level, self._rest) * self._errors
        parts = (self.rates_, self.rates_ - reach, self.rates_ + reach)
        return (*(np.broadcast_to(part, totals.people.shape) for part in parts), *parts)
