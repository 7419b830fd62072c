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
from scipy.optimize import minimize_scalar
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
_CLOSE, _APART = 0.05, 0.2  # in log s: how well its best is found, and the distance of points that tell the curvature
_PARABOLAS = 4  # through three points, each around the top of the one before
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


class _Node(NamedTuple):
    size: float
    share: float
    log_weight: float


def averaged_effect(log_evidence: LogEvidence, near: float | None) -> GroupEffect:
    """What the evidence leaves possible of s and q, looked for ``near`` an s from fewer bags."""
    nodes: list[_Node] = []
    for share in np.sin(0.5 * np.pi * _ANGLES) ** 2:
        found = _nodes_of_size(log_evidence, float(share), near)
        nodes += found
        near = max(found, key=lambda node: node.log_weight).size
    logs = np.array([node.log_weight for node in nodes])
    weights = np.exp(logs - logsumexp(logs))
    kept = weights > _LEAST
    weights = weights[kept] / weights[kept].sum()
    sizes, shares = ([node[place] for node, keep in zip(nodes, kept, strict=True) if keep] for place in (0, 1))
    return GroupEffect(tuple(sizes), tuple(shares), tuple(weights.tolist()))


def _nodes_of_size(log_evidence: LogEvidence, share: float, near: float | None) -> list[_Node]:
    """Three sizes and the log of what the evidence and the prior give them."""

    def log_posterior(log_size: float) -> float:
        try:
            found = log_evidence(float(np.exp(log_size)), share)
        except NumericalError:
            return -np.inf
        return found + float(norm.logpdf(log_size, np.log(CENTRE), SPREAD))

    centre, spread = _top(log_posterior, np.log(near) if near is not None else _first_guess(log_posterior))
    places = centre + spread * _NODES
    logs = [log_posterior(place) for place in places]
    law = np.log(_WEIGHTS) - norm.logpdf(_NODES) + np.log(spread)
    return [_Node(float(np.exp(x)), share, float(log + w)) for x, log, w in zip(places, logs, law, strict=True)]


def _first_guess(log_posterior: Callable[[float], float]) -> float:
    bounds, options = np.log(_SIZES), {"xatol": _CLOSE}
    return float(minimize_scalar(lambda x: -log_posterior(x), bounds=bounds, method="bounded", options=options).x)


def _top(log_posterior: Callable[[float], float], start: float) -> tuple[float, float]:
    """Where the log posterior of log s is highest, and the standard deviation that its curvature there means."""
    centre, spread = start, _APART
    for _ in range(_PARABOLAS):
        below, here, above = (log_posterior(centre + step) for step in (-_APART, 0.0, _APART))
        curvature = max((2.0 * here - below - above) / _APART**2, SPREAD**-2)
        if not np.isfinite(curvature):
            break
        move = float(np.clip(0.5 * (above - below) / (_APART * curvature), -1.0, 1.0))
        centre, spread = float(np.clip(centre + move, *np.log(_SIZES))), float(curvature**-0.5)
        if abs(move) <= _APART:
            break
    return centre, spread
