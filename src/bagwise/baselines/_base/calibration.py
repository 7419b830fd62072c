"""Probabilities for methods that have none: a sigmoid of scores of bags that the method had not learned from.

Platt, Probabilistic outputs for support vector machines, 1999: P(positive) = 1 / (1 + exp(-(a s + b))) is fitted to
scores s of held-out bags, with targets (n₁ + 1) / (n₁ + 2) and 1 / (n₀ + 2) in place of 1 and 0. A new bag may have a
score far beyond all of these; its log odds a s + b are bent so that they stay below 2 log(n + 1), because n bags cannot
make anybody surer than that. Order and decision stay.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.model_selection import StratifiedKFold

from bagwise.bags import Bags
from bagwise.baselines._base.machines import Calibrated, Floats, Machine
from bagwise.exceptions import BagDataWarning, warn_user

OPTIONS = ("sigmoid", "slope")
_LEAST_SLOPE = 0.01  # per standard deviation of the scores: their order is always kept
_MOST_SLOPE = 100.0
_ALIKE = 1e-9  # standard deviation, in units of the largest score, below which scores differ by rounding only

Learn = Callable[[Bags, Floats], Machine]


def calibrated(learn: Learn, bags: Bags, y: Floats, option: str, cv: int, random: Any) -> Calibrated:
    """The machine of all bags with a label, and the sigmoid of held-out scores; a share where one class is missing."""
    seen = ~np.isnan(y)
    if len(np.unique(y[seen])) < 2:
        return Calibrated(0.0, base_odds(y[seen]), 1.0, None)
    bags, y = bags[seen], y[seen]
    machine = learn(bags, y)
    slope, intercept = sigmoid(held_out_scores(learn, machine, bags, y, cv, random), y, option)
    return Calibrated(slope, intercept, float(2.0 * np.log(len(bags) + 1.0)), machine)


def held_out_scores(learn: Learn, machine: Machine, bags: Bags, y: Floats, cv: int, random: Any) -> Floats:
    """The score of every bag by a machine that was learned from other folds."""
    folds = min(cv, int(np.bincount(y.astype(int)).min()))
    if folds < 2:
        warn_user(
            "one of the classes has a single bag, so that no bag can be held out: the probabilities are calibrated on "
            "the bags that were learned from and will be too certain. Label more bags.",
            BagDataWarning,
        )
        return machine.scores(bags)
    scores = np.empty(len(bags))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=random).split(y, y):
        scores[test] = learn(bags[train], y[train]).scores(bags[test])
    return scores


def sigmoid(scores: Floats, y: Floats, option: str) -> tuple[float, float]:
    """Slope and intercept of the log odds; "slope" leaves the intercept at 0, where the method itself decides.

    Scores that are all alike, or not finite, say nothing: slope 0, and the log odds of the base rate.
    """
    size = float(np.abs(scores).max()) or 1.0
    unit = scores / size if np.isfinite(size) else np.zeros_like(scores)  # squares neither overflow nor vanish
    spread = float(np.std(unit))
    if spread < _ALIKE:
        return 0.0, base_odds(y)
    centre = 0.0 if option == "slope" else float(unit.mean())
    slope, intercept = _fitted((unit - centre) / spread, y, level=None if option == "sigmoid" else 0.0)
    return slope / spread / size, intercept - slope * centre / spread


def base_odds(y: Floats) -> float:
    """Log odds of a positive where nothing else is known."""
    positives = float(np.sum(y))
    return float(np.log((positives + 1.0) / (len(y) - positives + 1.0)))


def _fitted(scores: Floats, y: Floats, level: float | None) -> tuple[float, float]:
    """Slope and intercept (``level``, if that is given) of the likeliest log odds, for scores of variance 1."""
    positives = float(np.sum(y))
    target = np.where(y == 1, (positives + 1.0) / (positives + 2.0), 1.0 / (len(y) - positives + 2.0))

    def loss(parameters: Floats) -> tuple[float, Floats]:
        odds = parameters[0] * scores + parameters[1]
        off = expit(odds) - target
        value = -np.sum(target * log_expit(odds) + (1.0 - target) * log_expit(-odds))
        return float(value), np.array([off @ scores, off.sum()])

    bounds = [(_LEAST_SLOPE, _MOST_SLOPE), (level, level)]
    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return float(found.x[0]), float(found.x[1])
