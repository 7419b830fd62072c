"""How large the effects of bags are: as parameters of a search, and averaged over by the log evidence (section 15.2).

Few bags leave the sizes s of the groups open, and hardly tell which share q of their variance the cells have for
themselves. So for every q of a few, the sizes are averaged over by nodes around their most probable values: those of
the unscented transform, which for one size are three nodes of Gauss and Hermite. Their weights are corrected for the
difference between the evidence and the normal law that the nodes belong to.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from bagwise.bag_models.cell_effects import Effect
from bagwise.exceptions import NumericalError
from bagwise.gp.effects import GroupEffect

Vector = NDArray[np.float64]
LogEvidence = Callable[[Vector, float], float]  # of the sizes (G,) and q

CENTRE, SPREAD = 0.3, 1.5  # prior of a size: its median, and the standard deviation of its logarithm …
APART = 0.7  # … of which this is each group's own where there are several: they differ by a factor of about two
_LOGIT, _LOGIT_SPREAD = 0.75, 1.3  # of q in a search: about the prior below
_SIZES = (1e-3, 10.0)  # between which a size is looked for

# Fisher's z of the correlation 1 − q of two cells of a bag. Totals hardly tell it, so its prior matters: that of King
# (1997), normal around 0 with standard deviation .5, of which the positive half is possible here.
CORRELATION_SPREAD = 0.5
_FISHER = np.array([0.0, 0.35, 0.7, 1.1, 1.8])
_FIRST = 1  # of them: where the sizes are looked for first
_STEP = 0.3  # in log s: the distance of points that tell where the best is
_ROUNDS = 4  # parabolas through such points, each around the top of the one before
_LONGEST = 1.0  # in log s
_LEAST = 1e-4  # weight below which a node is left out


class EffectParameters:
    """log s, the logit of q and, where there are several groups, how far log s_g is from log s, with their prior."""

    def __init__(self, effect: GroupEffect | None, n_groups: int, dtype: torch.dtype, device: torch.device) -> None:
        self._fixed = None if effect is None else fixed_effect(effect, dtype, device)
        groups = np.ones(n_groups if n_groups > 1 else 0)
        self.centre = np.concatenate([[np.log(CENTRE), _LOGIT], 0.0 * groups]) if effect is None else np.zeros(0)
        self.spread = np.concatenate([[SPREAD, _LOGIT_SPREAD], APART * groups]) if effect is None else np.zeros(0)
        self._free = torch.tensor(self.centre, dtype=dtype, device=device).requires_grad_()

    def effect(self) -> Effect:
        """The present effect, with derivatives."""
        return self._fixed or _effect(self._log_sizes(), torch.sigmoid(self._free[1]))

    def log_sizes(self) -> Vector:
        """Of every group, or the only one."""
        found: Vector = self._log_sizes().detach().cpu().double().numpy()
        return found

    def _log_sizes(self) -> Tensor:
        return self._free[0] + self._free[2:] if len(self._free) > 2 else self._free[:1]

    def get(self) -> Vector:
        """The current values."""
        return self._free.detach().cpu().double().numpy().copy()

    def set(self, vector: Vector) -> None:
        """Put values in place, within what is looked for."""
        wanted = np.concatenate([np.clip(vector[:1], *np.log(_SIZES)), vector[1:]])
        with torch.no_grad():
            self._free.copy_(torch.as_tensor(wanted))

    def gradient(self) -> Vector:
        """What ``backward`` left."""
        found = self._free.grad
        return np.zeros(len(self._free)) if found is None else found.cpu().double().numpy()

    def clear(self) -> None:
        """Forget the gradient."""
        self._free.grad = None


def _effect(log_sizes: Tensor, own: Tensor) -> Effect:
    sizes = torch.exp(log_sizes)
    whole = torch.sqrt(sizes.square().mean())
    return Effect(whole, own, sizes / whole if len(sizes) > 1 else None)


def effect_of(sizes: Vector, share: float, like: Tensor) -> Effect:
    """From the sizes of groups (G,), or the only one."""
    return _effect(torch.log(like.new_tensor(sizes)), like.new_tensor(share))


def fixed_effect(effect: GroupEffect, dtype: torch.dtype, device: torch.device) -> Effect:
    """One effect in the place of all that are possible."""
    size = effect.size
    share = (effect.own / size) ** 2 if size > 0 else 0.0
    own = np.array(effect.by_group) / size if effect.columns else None
    whole, common = (torch.tensor(value, dtype=dtype, device=device) for value in (size, share))
    return Effect(whole, common, None if own is None else torch.tensor(own, dtype=dtype, device=device))


class PossibleEffects(NamedTuple):
    """Sizes (K, G), shares (K,) and their weights (K,), which add up to one."""

    sizes: Vector
    shares: Vector
    weights: Vector


def averaged_effect(log_evidence: LogEvidence, near: Vector) -> PossibleEffects:
    """What the evidence leaves possible of the sizes and of q, looked for ``near`` log sizes (G,) from fewer bags."""
    found, posteriors = dict[int, _Nodes](), [_LogPosterior(log_evidence, float(share)) for share in _shares()]
    first = posteriors[_FIRST].top(posteriors[_FIRST].best_start(near))
    for side in (range(_FIRST, len(posteriors)), range(_FIRST - 1, -1, -1)):
        law = first
        for number in side:
            nodes = posteriors[number].nodes(law)
            law, far = nodes.refined()
            found[number] = posteriors[number].nodes(law) if far else nodes
    return _weighted([found[number] for number in range(len(posteriors))])


def _weighted(found: "list[_Nodes]") -> PossibleEffects:
    """The nodes of all shares with their weights, without those that hardly count."""
    priors = zip(found, _correlation_weights(), strict=True)
    logs = np.concatenate([nodes.log_weights() + np.log(prior) for nodes, prior in priors])
    weights = np.exp(logs - logsumexp(logs))
    kept = weights > _LEAST
    sizes = np.concatenate([n.sizes() for n in found])[kept]
    shares = np.repeat(_shares(), [len(n.logs) for n in found])[kept]
    return PossibleEffects(sizes, shares, weights[kept] / weights[kept].sum())


def _shares() -> Vector:
    """Values of q."""
    found: Vector = 1.0 - np.tanh(_FISHER)
    return found


def _correlation_weights() -> Vector:
    """The prior of q at these values: the density of Fisher's z, times the length that a value stands for."""
    ends = np.concatenate([_FISHER[:1], 0.5 * (_FISHER[1:] + _FISHER[:-1]), [2.0 * _FISHER[-1] - _FISHER[-2]]])
    density = np.exp(-0.5 * np.square(_FISHER / CORRELATION_SPREAD)) * np.diff(ends)
    found: Vector = density / density.sum()
    return found


class _Normal(NamedTuple):
    """A normal law of the log sizes."""

    centre: Vector  # (G,)
    root: Vector  # (G, G), of its covariance


class _Nodes(NamedTuple):
    """Centre ± r × the columns of the root, the centre first, and the log posterior there.

    With r² = max(3, G) and the weights 1/2r² they have the mean and the covariance of the law, and none is negative.
    """

    law: _Normal
    radius: float
    logs: Vector  # (1 + 2G,)

    @classmethod
    def of(cls, law: _Normal, log_posterior: Callable[[Vector], Vector]) -> "_Nodes":
        radius = max(3.0, len(law.centre)) ** 0.5
        return cls(law, radius, log_posterior(_places(law, radius)))

    def sizes(self) -> Vector:
        """(1 + 2G, G): those that the evidence was asked about, to the last bit."""
        found: Vector = np.exp(_places(self.law, self.radius))
        return found

    def log_weights(self) -> Vector:
        """Weights of the nodes, corrected for the difference between the posterior and the normal law."""
        n, square = len(self.law.centre), self.radius**2
        weight = np.concatenate([[1.0 - n / square], np.full(2 * n, 0.5 / square)])
        density = -0.5 * np.concatenate([[0.0], np.full(2 * n, square)])
        volume = np.log(np.abs(np.diag(self.law.root))).sum()
        with np.errstate(divide="ignore"):
            found: Vector = self.logs + np.log(np.maximum(weight, 0.0)) - density + volume
        return found

    def refined(self) -> tuple[_Normal, bool]:
        """The law that parabolas along the axes mean, and whether it lies far from this one."""
        if not np.isfinite(self.logs).all():
            return _Normal(np.log(self.sizes()[int(np.argmax(self.logs))]), self.law.root), False
        above, below = self.logs[1:].reshape(2, -1)
        least = np.einsum("ij,ik,kj->j", self.law.root, _prior_precision(len(self.law.centre)), self.law.root)
        curvature = np.maximum((2.0 * self.logs[0] - above - below) / self.radius**2, least)
        moved = 0.5 * (above - below) / (self.radius * curvature)
        step = _bounded(self.law.root @ moved)
        root = self.law.root / np.sqrt(curvature)
        return _Normal(_within(self.law.centre + step), root), bool((np.abs(moved) > 1.0).any())


def _places(law: _Normal, radius: float) -> Vector:
    away = radius * law.root.T
    found: Vector = law.centre + np.concatenate([np.zeros((1, len(away))), away, -away])
    return found


class _LogPosterior(NamedTuple):
    """Of the log sizes at one share, up to a constant."""

    log_evidence: LogEvidence
    share: float

    def at(self, log_sizes: Vector) -> Vector:
        """At points (P, G)."""
        away = log_sizes - np.log(CENTRE)
        prior = -0.5 * np.einsum("pg,gh,ph->p", away, _prior_precision(log_sizes.shape[1]), away)
        found: Vector = np.array([self._at(sizes) for sizes in np.exp(log_sizes)]) + prior
        return found

    def _at(self, sizes: Vector) -> float:
        try:
            return self.log_evidence(sizes, self.share)
        except NumericalError:
            return -np.inf

    def nodes(self, law: _Normal) -> _Nodes:
        return _Nodes.of(law, self.at)

    def best_start(self, near: Vector) -> Vector:
        """Of ``near`` and of points where one group has large effects and the others small ones, the best."""
        n = len(near)
        starts = np.vstack([near, near.mean() + 2.0 * np.eye(n) - 1.0]) if n > 1 else near[None]
        best: Vector = starts[int(np.argmax(self.at(starts)))]
        return best

    def top(self, start: Vector) -> _Normal:
        """Where it is highest, and the normal law that its curvature there means."""
        centre, covariance = start, _STEP**2 * np.eye(len(start))
        for _ in range(_ROUNDS):
            slope, curvature = self._parabola(centre)
            covariance = _inverse(_at_least_the_prior(curvature))
            step = _bounded(covariance @ slope)
            centre = _within(centre + step)
            if float(np.abs(step).max()) <= _STEP:
                break
        return _Normal(centre, np.asarray(np.linalg.cholesky(covariance), dtype=np.float64))

    def _parabola(self, centre: Vector) -> tuple[Vector, Vector]:
        """Slope and minus the second derivatives, by differences."""
        n, (first, second) = len(centre), np.triu_indices(len(centre), 1)
        steps = _STEP * np.eye(n)
        logs = self.at(centre + np.vstack([np.zeros((1, n)), steps, -steps, steps[first] + steps[second]]))
        if not np.isfinite(logs).all():
            return np.zeros(n), np.eye(n) / _STEP**2
        here, above, below, both = logs[0], logs[1 : n + 1], logs[n + 1 : 2 * n + 1], logs[2 * n + 1 :]
        found = np.diag(2.0 * here - above - below)
        found[first, second] = found[second, first] = above[first] + above[second] - here - both
        return 0.5 * (above - below) / _STEP, found / _STEP**2


def _prior_precision(n: int) -> Vector:
    """Of n log sizes: what they have in common, and what each has for itself."""
    own = APART**2 if n > 1 else 0.0
    return _inverse((SPREAD**2 - own) * np.ones((n, n)) + own * np.eye(n))


def _inverse(matrix: Vector) -> Vector:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _at_least_the_prior(curvature: Vector) -> Vector:
    """The curvature with eigenvalues not below the least of the prior."""
    values, vectors = np.linalg.eigh(curvature)
    least = float(np.linalg.eigvalsh(_prior_precision(len(values)))[0])
    found: Vector = (vectors * np.maximum(values, least)) @ vectors.T
    return found


def _bounded(step: Vector) -> Vector:
    found: Vector = step * min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
    return found


def _within(log_sizes: Vector) -> Vector:
    found: Vector = np.clip(log_sizes, *np.log(_SIZES))
    return found
