"""Diverse density and EM-DD: one point that is near some instance of every positive bag and far from all others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.baseline import Baseline
from bagwise.baselines._base.machines import Floats, Machine, first_largest, largest
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard

_HALF = float(np.sqrt(np.log(2.0)))  # distance from the concept at which the probability is one half
_NEAR, _FAR = 1e-12, 30.0  # squared distances between which log(-log(1 - exp(-d))) is computed as it stands
_LARGEST_LOG = 6.0  # log U from which on 1 - exp(-U) is 1 in double precision
_MOST_ROUNDS = 50  # of EM
_LEAST_GAIN = 1e-4
_SETTLED = 1e-6  # relative gain at which a climb ends

Loss = Callable[[Floats], tuple[float, Floats]]  # of squared distances: its value and its gradient


@dataclass(frozen=True)
class Concept(Machine):
    """P(x) = exp(-Σ_k scale_k² (x_k - target_k)²); a bag by its nearest instance, or by noisy or."""

    target: Floats  # (D,)
    scale: Floats  # (D,)
    noisy_or: bool

    def scores(self, bags: Bags) -> Floats:
        """(B,) √log 2 - √(-log P): above 0 where P > ½, and linear in the distance far away."""
        distance = squared_distances(bags.X, self.target, self.scale)
        log_p = log_noisy_or(distance, bags)[0] if self.noisy_or else largest(-distance, bags)
        return _HALF - np.sqrt(np.maximum(-log_p, 0.0))


def squared_distances(X: Floats, target: Floats, scale: Floats) -> Floats:
    """(N,) Σ_k scale_k² (x_k - target_k)²."""
    found: Floats = np.square((X - target) * scale).sum(axis=1)
    return found


def log_noisy_or(distance: Floats, bags: Bags) -> tuple[Floats, Floats]:
    """log(1 - Π (1 - exp(-d))) of each bag, without loss of digits near and far, and its gradient by d.

    With U = -Σ log(1 - exp(-d)) it is log(1 - exp(-U)), and log U is the log-sum-exp of a = log(-log(1 - exp(-d))),
    which is -d far away; log(1 - exp(-U)) is log U where U is tiny. Slopes: U / (exp(U) - 1) by log U, and
    -p / ((1 - p) (-log(1 - p))) of a by d with p = exp(-d).
    """
    p = np.exp(-np.clip(distance, _NEAR, _FAR))
    hazard = -np.log1p(-p)
    a = np.where(distance < _FAR, np.log(hazard), -distance)
    top = largest(a, bags)
    log_u = top + np.log(np.add.reduceat(np.exp(a - top[bags.index]), bags.offsets[:-1]))
    u = np.exp(np.clip(log_u, -_FAR, _LARGEST_LOG))
    value = np.where(log_u < -_FAR, log_u, np.log(-np.expm1(-u)))
    slope = (u / np.expm1(u))[bags.index] * np.exp(a - log_u[bags.index])
    return value, -slope * p / ((1.0 - p) * hazard)


def density_loss(distance: Floats, bags: Bags, y: Floats) -> tuple[float, Floats]:
    """Maron & Lozano-Pérez, minus the log diverse density: -Σ log P(positive bag) - Σ log(1 - P(negative bag))."""
    value, gradient = log_noisy_or(distance, bags)
    negative = y[bags.index] == 0
    near = np.maximum(distance[negative], _NEAR)
    slopes = np.where(negative, 0.0, -gradient)
    slopes[negative] = -1.0 / np.expm1(np.minimum(near, 500.0))
    return float(-value[y == 1].sum() - np.log(-np.expm1(-near)).sum()), slopes


def witness_loss(distance: Floats, y: Floats) -> tuple[float, Floats]:
    """Zhang & Goldman: the same with one instance per bag."""
    near = np.maximum(distance, _NEAR)
    value = np.where(y == 1, distance, -np.log(-np.expm1(-near))).sum()
    return float(value), np.where(y == 1, 1.0, -1.0 / np.expm1(np.minimum(near, 500.0)))


def climbed(loss: Loss, X: Floats, start: Floats) -> tuple[Floats, float]:
    """Target and scale, in one row, at the nearest minimum of a loss of squared distances, and minus the loss."""

    def objective(parameters: Floats) -> tuple[float, Floats]:
        target, scale = np.split(parameters, 2)
        off = X - target
        value, slope = loss(np.square(off * scale).sum(axis=1))
        return value, np.concatenate([-2.0 * scale**2 * (slope @ off), 2.0 * scale * (slope @ off**2)])

    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": _SETTLED})
    return found.x, -float(found.fun)


class DiverseDensity(Baseline):
    """The best of several climbs, each from an instance of a positive bag."""

    def __init__(
        self,
        n_starts: int = 10,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        self.n_starts = n_starts
        self.standardize = standardize
        self.calibration = calibration
        self.cv = cv
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("n_starts", self.n_starts)

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> Concept:
        rows = random.permutation(np.flatnonzero(y[bags.index] == 1))[: self.n_starts]
        width = np.full(bags.n_features, bags.n_features**-0.5)
        climbs = [self._climb(bags, y, np.concatenate([bags.X[row], width])) for row in rows]
        best, _ = max(climbs, key=lambda climb: climb[1])
        target, scale = np.split(best, 2)
        return Concept(target, scale, self._has_noisy_or())

    def _climb(self, bags: Bags, y: Floats, start: Floats) -> tuple[Floats, float]:
        """Target and scale, and the log density there."""
        raise NotImplementedError

    def _has_noisy_or(self) -> bool:
        return False


@documented_baseline
class DD(DiverseDensity):
    """Diverse density: the point that is near an instance of every positive bag and far from those of negative ones.

    An instance is positive with probability exp(-Σ scale² (x - target)²), a bag if at least one instance is (noisy
    or). Target and scales maximise the probability of the labels, from several starts.

    There is one concept only: positives that lie in two places are not found. The density has many local maxima; with
    many features and few bags the scales fit by chance.

    References
    ----------
    Maron & Lozano-Pérez, A framework for multiple-instance learning, NIPS 1998.
    """

    card = ModelCard("dd", ("label",), "Maron & Lozano-Pérez 1998", "calibrated")

    def _climb(self, bags: Bags, y: Floats, start: Floats) -> tuple[Floats, float]:
        return climbed(partial(density_loss, bags=bags, y=y), bags.X, start)

    def _has_noisy_or(self) -> bool:
        return True


@documented_baseline
class EMDD(DiverseDensity):
    """EM-DD: diverse density with one instance per bag, chosen in turn with the concept.

    The instance of a bag that is nearest to the concept stands for it; then target and scales are fitted to these
    instances; and so on while the density grows. The best of several starts is kept. A bag is as probable as its
    nearest instance.

    There is one concept only: positives that lie in two places are not found. With many features and few bags the
    scales fit by chance, and figures that were published for it were once chosen by test error.

    References
    ----------
    Zhang & Goldman, EM-DD: an improved multiple-instance learning technique, NIPS 2001.
    """

    card = ModelCard("em-dd", ("label",), "Zhang & Goldman 2001", "calibrated")

    def _climb(self, bags: Bags, y: Floats, start: Floats) -> tuple[Floats, float]:
        best, density = start, -np.inf
        for _ in range(_MOST_ROUNDS):
            witnesses = bags.X[first_largest(-squared_distances(bags.X, *np.split(best, 2)), bags)]
            found, value = climbed(partial(witness_loss, y=y), witnesses, best)
            if value <= density + _LEAST_GAIN:
                break
            best, density = found, value
        return best, density
