"""Probabilities for methods that have none: a sigmoid of scores of bags that the method had not learned from.

Platt, Probabilistic outputs for support vector machines, 1999: P(positive) = 1 / (1 + exp(-(a s + b))) is fitted to
scores s of held-out bags, with targets (n₁ + 1) / (n₁ + 2) and 1 / (n₀ + 2) in place of 1 and 0. A new bag may have a
score far beyond all of these; its log odds a s + b are bent so that they stay below 2 log(n + 1), because n bags cannot
make anybody surer than that. Order and decision stay.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from bagwise.bags import Bags
from bagwise.baselines._base.machines import Calibrated, Floats, Machine
from bagwise.exceptions import BagDataWarning, warn_user

OPTIONS = ("sigmoid", "slope")
_LEAST_SLOPE = 0.01  # per standard deviation of the scores: their order is always kept
_MOST_SLOPE = 100.0
_ALIKE = 1e-9  # standard deviation, in units of the largest score, below which scores differ by rounding only

Learn = Callable[[Bags, Floats, Floats], Machine]


class Weighted(NamedTuple):
    """Bags with their labels (0, 1, NaN where missing) and how much each counts."""

    bags: Bags
    y: Floats
    weight: Floats

    def some(self, chosen: Any) -> "Weighted":
        """Some of them."""
        return Weighted(self.bags[chosen], self.y[chosen], self.weight[chosen])


def calibrated(learn: Learn, given: Weighted, option: str, cv: int, random: Any) -> Calibrated:
    """The machine of all bags with a label, and the sigmoid of held-out scores; a share where one class is missing."""
    seen = ~np.isnan(given.y) & (given.weight > 0)
    if len(np.unique(given.y[seen])) < 2:
        return Calibrated(0.0, base_odds(given.y[seen], given.weight[seen]), 1.0, None)
    chosen = given.some(seen)
    machine = learn(*chosen)
    slope, intercept = sigmoid(held_out_scores(learn, machine, chosen, cv, random), chosen.y, option, chosen.weight)
    return Calibrated(slope, intercept, float(2.0 * np.log(chosen.weight.sum() + 1.0)), machine)


def held_out_scores(learn: Learn, machine: Machine, chosen: Weighted, cv: int, random: Any) -> Floats:
    """The score of every bag by a machine that was learned from other folds; no group of bags is in two of them."""
    splits = _splits(chosen.bags, chosen.y, cv, random)
    if not splits:
        warn_user(
            "one of the classes has a single bag (or group of bags), so that none can be held out: the probabilities "
            "are calibrated on the bags that were learned from and will be too certain. Label more bags.",
            BagDataWarning,
        )
        return machine.scores(chosen.bags)
    scores = np.empty(len(chosen.bags))
    for train, test in splits:
        scores[test] = learn(*chosen.some(train)).scores(chosen.bags[test])
    return scores


def _splits(bags: Bags, y: Floats, cv: int, random: Any) -> list[tuple[Any, Any]]:
    """Folds with both classes to learn from in each; none where there are too few bags, or groups of them."""
    groups = np.arange(len(bags)) if bags.group is None else np.unique(bags.group, return_inverse=True)[1]
    folds = min(cv, *(len(np.unique(groups[y == value])) for value in (0, 1)))
    if folds < 2:
        return []
    if bags.group is None:
        return list(StratifiedKFold(folds, shuffle=True, random_state=random).split(y, y))
    found = list(StratifiedGroupKFold(folds, shuffle=True, random_state=random).split(y, y, groups))
    return found if all(len(np.unique(y[train])) == 2 for train, _ in found) else []


def sigmoid(scores: Floats, y: Floats, option: str, weight: Floats | None = None) -> tuple[float, float]:
    """Slope and intercept of the log odds; "slope" leaves the intercept at 0, where the method itself decides.

    Scores that are all alike, or not finite, say nothing: slope 0, and the log odds of the base rate.
    """
    times = np.ones(len(y)) if weight is None else weight
    size = float(np.abs(scores).max()) or 1.0
    unit = scores / size if np.isfinite(size) else np.zeros_like(scores)  # squares neither overflow nor vanish
    spread = float(np.std(unit))
    if spread < _ALIKE:
        return 0.0, base_odds(y, times)
    centre = 0.0 if option == "slope" else float(unit.mean())
    slope, intercept = _fitted((unit - centre) / spread, y, times, level=None if option == "sigmoid" else 0.0)
    return slope / spread / size, intercept - slope * centre / spread


def base_odds(y: Floats, weight: Floats) -> float:
    """Log odds of a positive where nothing else is known."""
    positives, total = float(np.sum(weight * y)), float(np.sum(weight))
    return float(np.log((positives + 1.0) / (total - positives + 1.0)))


def _fitted(scores: Floats, y: Floats, weight: Floats, level: float | None) -> tuple[float, float]:
    """Slope and intercept (``level``, if that is given) of the likeliest log odds, for scores of variance 1."""
    positives, total = float(np.sum(weight * y)), float(np.sum(weight))
    target = np.where(y == 1, (positives + 1.0) / (positives + 2.0), 1.0 / (total - positives + 2.0))

    def loss(parameters: Floats) -> tuple[float, Floats]:
        odds = parameters[0] * scores + parameters[1]
        off = weight * (expit(odds) - target)
        value = -np.sum(weight * (target * log_expit(odds) + (1.0 - target) * log_expit(-odds)))
        return float(value), np.array([off @ scores, off.sum()])

    bounds = [(_LEAST_SLOPE, _MOST_SLOPE), (level, level)]
    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return float(found.x[0]), float(found.x[1])
