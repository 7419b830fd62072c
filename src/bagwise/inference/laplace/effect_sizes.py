"""How large the effects of bags are: as parameters of a search, and averaged over by the log evidence (section 15.2).

Few bags leave the size s open, and hardly tell which share q of its variance the cells have for themselves. So for
every q of a few, s is averaged over by three nodes of Gauss and Hermite around its most probable value, corrected for
the difference between the evidence and the normal law that these belong to.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from bagwise.bag_models.cell_effects import Effect
from bagwise.exceptions import NumericalError
from bagwise.gp.effects import GroupEffect

Vector = NDArray[np.float64]
LogEvidence = Callable[[float, float], float]  # of s and q

CENTRE, SPREAD = 0.3, 1.5  # prior of s: its median, and the standard deviation of its logarithm
_LOGIT_SPREAD = 1.5  # of the logit of q in a search: about the uniform law
_SIZES = (1e-3, 10.0)  # between which s is looked for
_ANGLES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # common = s cos, own = s sin of these right angles, all as probable
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(3)
_APART = 0.2  # in log s: the distance of points that tell where the best is
_PARABOLAS = 6  # through three points, each around the top of the one before
_LEAST = 1e-4  # weight below which a node is left out


class EffectParameters:
    """log s and the logit of q as a block of a search, with their prior."""

    def __init__(self, effect: GroupEffect | None, dtype: torch.dtype, device: torch.device) -> None:
        self._free = torch.tensor([np.log(CENTRE), 0.0], dtype=dtype, device=device).requires_grad_()
        self._fixed = None if effect is None else fixed_effect(effect, dtype, device)
        both = effect is None
        self.centre = np.array([np.log(CENTRE), 0.0] if both else [])
        self.spread = np.array([SPREAD, _LOGIT_SPREAD] if both else [])

    def effect(self) -> Effect:
        """The present effect, with derivatives."""
        return self._fixed or Effect(torch.exp(self._free[0]), torch.sigmoid(self._free[1]))

    def get(self) -> Vector:
        """The current values."""
        return self._free.detach().cpu().double().numpy().copy() if self._fixed is None else np.zeros(0)

    def set(self, vector: Vector) -> None:
        """Put values in place, within what is looked for."""
        with torch.no_grad():
            self._free[0] = float(np.clip(vector[0], *np.log(_SIZES)))
            self._free[1] = float(vector[1])

    def gradient(self) -> Vector:
        """What ``backward`` left."""
        found = self._free.grad
        return np.zeros(2) if found is None else found.cpu().double().numpy()

    def clear(self) -> None:
        """Forget the gradient."""
        self._free.grad = None


def fixed_effect(effect: GroupEffect, dtype: torch.dtype, device: torch.device) -> Effect:
    """One effect in the place of all that are possible."""
    size = effect.size
    share = (effect.own / size) ** 2 if size > 0 else 0.0
    return Effect(*(torch.tensor(value, dtype=dtype, device=device) for value in (size, share)))


class _Nodes(NamedTuple):
    """Three sizes of one share, the log posterior there, and the normal law that they are the nodes of."""

    share: float
    places: Vector  # log s
    logs: Vector
    spread: float

    def log_weights(self) -> Vector:
        """Weights of Gauss and Hermite, corrected for the difference between the posterior and the normal law."""
        found: Vector = self.logs + np.log(_WEIGHTS) - norm.logpdf(_NODES) + np.log(self.spread)
        return found


def averaged_effect(log_evidence: LogEvidence, near: float | None) -> GroupEffect:
    """What the evidence leaves possible of s and q, looked for ``near`` an s from fewer bags."""
    shares, nodes = np.sin(0.5 * np.pi * _ANGLES) ** 2, list[_Nodes]()
    posterior = _LogPosterior(log_evidence, float(shares[0]))
    centre, spread = posterior.top(np.log(CENTRE if near is None else near))
    for share in shares:
        posterior = _LogPosterior(log_evidence, float(share))
        found = posterior.nodes(centre, spread)
        centre, spread, moved = _parabola(found.places, found.logs)
        nodes.append(posterior.nodes(centre, spread) if abs(moved) > found.spread else found)
    logs, places, owns = (
        np.concatenate(parts)
        for parts in zip(*((n.log_weights(), n.places, np.full(3, n.share)) for n in nodes), strict=True)
    )
    weights = np.exp(logs - logsumexp(logs))
    kept = weights > _LEAST
    weights = weights[kept] / weights[kept].sum()
    sizes = tuple(float(np.exp(float(place))) for place in places[kept])  # those that the evidence was asked about
    return GroupEffect(sizes, tuple(owns[kept].tolist()), tuple(weights.tolist()))


class _LogPosterior(NamedTuple):
    """Of log s at one share, up to a constant."""

    log_evidence: LogEvidence
    share: float

    def at(self, log_sizes: Vector) -> Vector:
        prior = norm.logpdf(log_sizes, np.log(CENTRE), SPREAD)
        found: Vector = np.array([self._at(float(x)) for x in log_sizes]) + prior
        return found

    def _at(self, log_size: float) -> float:
        try:
            return self.log_evidence(float(np.exp(log_size)), self.share)
        except NumericalError:
            return -np.inf

    def nodes(self, centre: float, spread: float) -> _Nodes:
        places = centre + spread * _NODES
        return _Nodes(self.share, places, self.at(places), spread)

    def top(self, start: float) -> tuple[float, float]:
        """Where it is highest, and the standard deviation that its curvature there means."""
        centre, spread = float(start), _APART
        for _ in range(_PARABOLAS):
            places = centre + _APART * np.array([-1.0, 0.0, 1.0])
            centre, spread, moved = _parabola(places, self.at(places))
            if abs(moved) <= _APART:
                break
        return centre, spread


def _parabola(places: Vector, logs: Vector) -> tuple[float, float, float]:
    """Top of the parabola through three points at equal distances, the spread it means, how far from the middle."""
    step, (below, here, above) = float(places[1] - places[0]), logs
    if not np.isfinite(logs).all():
        return float(places[int(np.argmax(logs))]), step, 0.0
    curvature = max((2.0 * here - below - above) / step**2, SPREAD**-2)
    moved = float(np.clip(0.5 * (above - below) / (step * curvature), -1.0, 1.0))
    return float(np.clip(places[1] + moved, *np.log(_SIZES))), float(curvature**-0.5), moved
