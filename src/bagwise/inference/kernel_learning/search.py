"""Learning by the gradient of a log evidence: L-BFGS over blocks of parameters with Gaussian priors.

An objective that cannot be evaluated (an inference that fails, a matrix that cannot be factored) makes that point very
bad instead of ending the search; the best point that could be evaluated is what remains in the end.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.inference.loop import Trace, Watch, progress

Vector = NDArray[np.float64]

_NAME = "log evidence + log prior"
_LAST, _NOTHING = 5, 1e-2  # evaluations, and nats gained over them
_REFUSED = 1e6  # added to the worst value seen where the objective fails
_GAIN = 1e-6  # relative gain of an iteration below which the search has settled …
_MANY, _COARSE_GAIN = 50, 1e-4  # … and with more parameters than that, which creep along flat directions for ever
_SPARE_STARTS = 3  # draws of the prior to try where no start could be evaluated


class Block(Protocol):
    """Parameters as a vector, with a Gaussian prior (infinite spread: none)."""

    centre: Vector
    spread: Vector

    def get(self) -> Vector:
        """The current values."""

    def set(self, vector: Vector) -> None:
        """Put values in place."""

    def gradient(self) -> Vector:
        """What ``backward`` left."""

    def clear(self) -> None:
        """Forget the gradient."""


class EvidenceSearch:
    """Maximise ``objective() + log prior`` over the blocks; ``objective`` returns a differentiable scalar."""

    def __init__(self, blocks: Sequence[Block], objective: Callable[[], Tensor]) -> None:
        self._blocks = [block for block in blocks if len(block.get())]
        self._objective = objective
        self._cuts = np.cumsum([len(block.get()) for block in self._blocks])[:-1]
        self._centre = np.concatenate([block.centre for block in self._blocks])
        self._spread = np.concatenate([block.spread for block in self._blocks])
        self._best, self._best_at, self._worst = -math.inf, self._get(), 0.0
        self._course: list[float] = []
        self._advance: Callable[[float], None] = lambda value: None

    def run(self, n_restarts: int, max_iter: int, random: np.random.RandomState, watch: Watch) -> Trace:
        """Search from the current values and from further draws of the prior; leaves the best in place.

        Should every start turn out to be one that cannot be evaluated, a few more are drawn.
        The trace holds the best value after every evaluation. Ctrl-C ends the search with the best point so far.
        """
        start, converged, interrupted = self._get(), False, False
        gain = _GAIN if len(start) <= _MANY else _COARSE_GAIN
        options = {"maxiter": max_iter, "ftol": gain, "gtol": 1e-3}
        with progress(watch, None, _NAME) as self._advance:
            try:
                for restart in range(n_restarts + _SPARE_STARTS):
                    if restart >= n_restarts and math.isfinite(self._best):
                        break
                    point = start if restart == 0 else self._drawn(start, random)
                    before = self._best
                    found = minimize(self._evaluate, point, jac=True, method="L-BFGS-B", options=options)
                    if self._best > before:
                        converged = bool(found.success) or self._settled()
            except KeyboardInterrupt:
                interrupted = True
        self._set(self._best_at)
        for block in self._blocks:
            block.clear()
        course = np.array(self._course)
        return Trace(_NAME, course, np.zeros_like(course), converged and math.isfinite(self._best), interrupted)

    def _settled(self) -> bool:
        """Whether the last evaluations gained nothing that matters; their rounding can stop a line search early."""
        return len(self._course) > _LAST and self._course[-1] - self._course[-1 - _LAST] < _NOTHING

    def _drawn(self, start: Vector, random: np.random.RandomState) -> Vector:
        proper = np.isfinite(self._spread)
        drawn = self._centre + np.where(proper, self._spread, 0.0) * random.standard_normal(len(start))
        return np.where(proper, drawn, start)

    def _evaluate(self, vector: Vector) -> tuple[float, Vector]:
        self._set(vector)
        for block in self._blocks:
            block.clear()
        try:
            value, gradient = self._posterior(vector)
        except NumericalError:
            value, gradient = -math.inf, np.zeros_like(vector)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            self._record()
            return self._worst + _REFUSED, np.zeros_like(vector)
        self._worst = max(self._worst, -value)
        if value > self._best:
            self._best, self._best_at = value, vector.copy()
        self._record()
        return -value, -gradient

    def _record(self) -> None:
        self._course.append(self._best)
        self._advance(self._best)

    def _posterior(self, vector: Vector) -> tuple[float, Vector]:
        evidence = self._objective()
        torch.autograd.backward(evidence)
        away = (vector - self._centre) / self._spread
        gradient = np.concatenate([block.gradient() for block in self._blocks])
        return float(evidence.detach()) - 0.5 * float(away @ away), gradient - away / self._spread

    def _get(self) -> Vector:
        return np.concatenate([block.get() for block in self._blocks])

    def _set(self, vector: Vector) -> None:
        for block, part in zip(self._blocks, np.split(vector, self._cuts), strict=True):
            block.set(part)


def unsettled(trace: Trace) -> str:
    """What to tell the user of a search that did not settle."""
    if not np.isfinite(trace.values).any():
        return (
            "the kernel could not be learned: its evidence could be evaluated nowhere, so the kernel stays as given. "
            "Other starting values (lengthscale, or a gpytorch kernel) or more restarts (n_restarts) may help."
        )
    return (
        f"the search for the kernel stopped after {len(trace)} evaluations before it settled; the best kernel found is "
        "kept. More restarts (n_restarts) or a kernel with fewer parameters may help."
    )
