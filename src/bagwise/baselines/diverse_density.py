"""Diverse density and EM-DD: one point that is near some instance of every positive bag and far from all others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.baseline import CALIBRATED, Baseline
from bagwise.baselines._base.machines import Floats, Machine, tensors_of
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard
from bagwise.numerics.segments import Segments

_HALF = float(np.sqrt(np.log(2.0)))  # distance from the concept at which the probability is one half
_NEAR, _FAR = 1e-12, 30.0  # squared distances between which log(-log(1 - exp(-d))) is computed as it stands
_MOST_ROUNDS = 50  # of EM
_LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class Concept(Machine):
    """P(x) = exp(-Σ_k scale_k² (x_k - target_k)²); a bag by its nearest instance, or by noisy or."""

    target: Floats  # (D,)
    scale: Floats  # (D,)
    noisy_or: bool

    def scores(self, bags: Bags) -> Floats:
        """(B,) √log 2 - √(-log P): above 0 where P > ½, and linear in the distance far away."""
        X, segments = tensors_of(bags)
        distance = squared_distance(X, torch.from_numpy(np.concatenate([self.target, self.scale])))
        log_p = log_noisy_or(distance, segments) if self.noisy_or else segments.max(-distance)
        scores: Floats = (_HALF - (-log_p).clamp(min=0.0).sqrt()).numpy()
        return scores


def squared_distance(X: Tensor, parameters: Tensor) -> Tensor:
    """(N,) Σ_k scale_k² (x_k - target_k)² for parameters target, scale in one row."""
    target, scale = parameters.chunk(2)
    return ((X - target) * scale).square().sum(1)


def log_noisy_or(distance: Tensor, segments: Segments) -> Tensor:
    """(B,) log(1 - Π (1 - exp(-d))) over each bag, without loss of digits near and far.

    With U = -Σ log(1 - exp(-d)) it is log(1 - exp(-U)), and log U is the log-sum-exp of log(-log(1 - exp(-d))), which
    is -d far away; log(1 - exp(-U)) is log U where U is tiny.
    """
    middle = distance.clamp(_NEAR, _FAR)
    each = torch.where(distance < _FAR, torch.log(-torch.log(-torch.expm1(-middle))), -distance)
    log_u = segments.logsumexp(each)
    return torch.where(log_u < -_FAR, log_u, torch.log(-torch.expm1(-log_u.clamp(-_FAR, 6.0).exp())))


def log_density(parameters: Tensor, X: Tensor, segments: Segments, positive: Tensor) -> Tensor:
    """Maron & Lozano-Pérez, log of the diverse density: Σ log P(positive bag) + Σ log(1 - P(negative bag))."""
    distance = squared_distance(X, parameters)
    none = segments.sum(torch.log(-torch.expm1(-distance.clamp(min=_NEAR))))
    return torch.where(positive, log_noisy_or(distance, segments), none).sum()


def log_density_of_witnesses(parameters: Tensor, witnesses: Tensor, positive: Tensor) -> Tensor:
    """Zhang & Goldman: the same with one instance per bag."""
    distance = squared_distance(witnesses, parameters)
    return torch.where(positive, -distance, torch.log(-torch.expm1(-distance.clamp(min=_NEAR)))).sum()


def climbed(objective: Callable[[Tensor], Tensor], start: Floats) -> tuple[Floats, float]:
    """The parameters at the nearest maximum of the objective, and its value."""

    def loss(parameters: Floats) -> tuple[float, Floats]:
        point = torch.tensor(parameters, requires_grad=True)
        value = -objective(point)
        (slope,) = torch.autograd.grad(value, point)
        return float(value.detach()), slope.numpy()

    found = minimize(loss, start, jac=True, method="L-BFGS-B")
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

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState) -> Concept:
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

    Parameters
    ----------
    n_starts : int
        Number of instances of positive bags, drawn at random, from which a maximum is looked for. Increase it if fits
        with other random numbers differ; it costs time.

    References
    ----------
    Maron & Lozano-Pérez, A framework for multiple-instance learning, NIPS 1998.
    """

    card = ModelCard("dd", ("label",), "Maron & Lozano-Pérez 1998", CALIBRATED)

    def _climb(self, bags: Bags, y: Floats, start: Floats) -> tuple[Floats, float]:
        (X, segments), positive = tensors_of(bags), torch.from_numpy(y == 1)
        return climbed(partial(log_density, X=X, segments=segments, positive=positive), start)

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

    Parameters
    ----------
    n_starts : int
        Number of instances of positive bags, drawn at random, from which a maximum is looked for. Increase it if fits
        with other random numbers differ; it costs time.

    References
    ----------
    Zhang & Goldman, EM-DD: an improved multiple-instance learning technique, NIPS 2001.
    """

    card = ModelCard("em-dd", ("label",), "Zhang & Goldman 2001", CALIBRATED)

    def _climb(self, bags: Bags, y: Floats, start: Floats) -> tuple[Floats, float]:
        (X, segments), positive = tensors_of(bags), torch.from_numpy(y == 1)
        best, density = start, -np.inf
        for _ in range(_MOST_ROUNDS):
            witnesses = X[segments.first_largest(-squared_distance(X, torch.from_numpy(best)))]
            found, value = climbed(partial(log_density_of_witnesses, witnesses=witnesses, positive=positive), best)
            if value <= density + _LEAST_GAIN:
                break
            best, density = found, value
        return best, density
