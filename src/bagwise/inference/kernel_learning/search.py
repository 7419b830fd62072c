"""Learning by the gradient of a log evidence: L-BFGS over blocks of parameters with Gaussian priors.

A judge says how high the log evidence of the present parameters is and leaves its gradient in them. Where it cannot (an
inference that fails, a matrix that cannot be factored) that point is very bad; it does not end the search. The best
point that could be evaluated is what remains in the end.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import LbfgsInvHessProduct, minimize
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.inference.loop import Trace, Watch, progress

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_NAME = "log evidence + log prior"
_LAST, _NOTHING = 5, 1e-2  # evaluations, and nats gained over them
_REFUSED = 1e6  # the value where not even the start can be evaluated
_GAIN = 1e-6  # relative gain of an iteration below which the search has settled …
_MANY, _COARSE_GAIN = 50, 1e-4  # … and with more parameters than that, which creep along flat directions for ever
_ITERATIONS, _MOST_ITERATIONS = 50, 200  # the first and one more for every parameter, at most the second
_IDLE = 4  # evaluations in a row that gain no more than the judge may be off by, after which the search is over
_LENGTHS = (1.0, 0.25, 0.05)  # of a step of Newton's method that are tried
_FARTHEST = 1.0  # that such a step moves a parameter
_SPARE_STARTS = 3  # draws of the prior to try where no start could be evaluated
_FIRST_STEPS = 4  # iterations from every start elsewhere; only the best of them goes on


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


Judge = Callable[[], float]  # the log evidence at the present parameters, whose gradient it leaves in them


def differentiated(objective: Callable[[], Tensor]) -> Judge:
    """A judge from a differentiable scalar."""

    def judge() -> float:
        log_evidence = objective()
        torch.autograd.backward(log_evidence)
        return float(log_evidence.detach())

    return judge


class Elsewhere(NamedTuple):
    """Where to look if the usual search gains no more than so many nats."""

    starts: Sequence[Vector] = ()
    too_little: float = -math.inf


NOWHERE = Elsewhere()


class _Enough(Exception):
    """The judge cannot tell the points any more that the search asks about."""


class EvidenceSearch:
    """Maximise ``judge() + log prior`` over the blocks; ``rough`` is what the judge may be off by, in nats.

    Without ``prior`` the judge alone counts; further starts are drawn from the priors all the same.
    """

    def __init__(self, blocks: Sequence[Block], judge: Judge, rough: float = 0.0, *, prior: bool = True) -> None:
        self._blocks = [block for block in blocks if len(block.get())]
        self._judge, self._rough = judge, rough
        self._cuts = np.cumsum([len(block.get()) for block in self._blocks])[:-1]
        self._centre = np.concatenate([block.centre for block in self._blocks])
        self._spread = np.concatenate([block.spread for block in self._blocks])
        self._prior_width = self._spread if prior else np.full_like(self._spread, np.inf)
        self._best, self._best_at = -math.inf, self._get()
        self._course: list[float] = []
        self._gains: list[float] = []  # from the usual start and from those elsewhere, where these were needed
        self._converged = False
        self._failures = 0  # in a row, up to the last evaluation
        self._reached, self._before, self._idle = -math.inf, -math.inf, 0  # of the present climb
        self._seen: dict[bytes, Vector] = {}  # slopes of all points evaluated …
        self._visited: list[Vector] = []  # … and those of them that the search went on from
        self.inverse_curvature: Callable[[Vector], Vector] = lambda vector: vector
        self._advance: Callable[[float], None] = lambda value: None
        self._asked: tuple[Vector, float, Vector] | None = None  # the last point, and what the judge said of it

    @property
    def free(self) -> int:
        """Number of parameters."""
        return len(self._centre)

    def run(
        self,
        n_restarts: int,
        max_iter: int,
        random: np.random.RandomState,
        watch: Watch,
        elsewhere: Elsewhere = NOWHERE,
    ) -> Trace:
        """Search from the current values and from further draws of the prior; leaves the best in place.

        A search that ends among evaluations that failed has not settled, though their slope of 0 looks like it.
        Should every start turn out to be one that cannot be evaluated, a few more are drawn.
        The trace holds the best value after every evaluation. Ctrl-C ends the search with the best point so far.
        """
        start, interrupted = self._get(), False
        gain = _GAIN if len(start) <= _MANY else _COARSE_GAIN
        options = {"maxiter": max_iter, "ftol": gain, "gtol": 1e-3}
        with progress(watch, None, _NAME) as self._advance:
            try:
                for restart in range(n_restarts + _SPARE_STARTS):
                    if restart >= n_restarts and math.isfinite(self._best):
                        break
                    point = start if restart == 0 else self._drawn(start, random)
                    self._try(point, options)
                if elsewhere.starts and self._best - self._course[0] <= elsewhere.too_little:
                    self._look_elsewhere(elsewhere.starts, options)
            except KeyboardInterrupt:
                interrupted = True
        return self._ended(self._converged, interrupted)

    def _try(self, point: Vector, options: dict[str, float]) -> None:
        """Search from one point. Where that finds a better one, it matters whether it settled there."""
        before = self._best
        settled = self._climb(point, options)
        if self._best > before:
            self.inverse_curvature = self._known_curvature()
            self._converged = settled

    def _look_elsewhere(self, starts: Sequence[Vector], options: dict[str, float]) -> None:
        """A few steps from every start, and all steps from the best; what each gained over the first point is kept."""
        first, usual, settled = self._course[0], self._best, self._converged
        self._gains = [usual - first]
        for point in starts:
            self._try(point, options | {"maxiter": _FIRST_STEPS})
            self._gains.append(self._reached - first)
        if self._best > usual + _NOTHING:
            settled = self._climb(self._best_at, options)
            self._gains[1 + int(np.argmax(self._gains[1:]))] = self._best - first
        self._converged = settled

    def _ended(self, converged: bool, interrupted: bool) -> Trace:
        """The best values in place, and the course of the search."""
        self._set(self._best_at)
        for block in self._blocks:
            block.clear()
        course = np.array(self._course)
        settled = converged and math.isfinite(self._best)
        return Trace(_NAME, course, np.zeros_like(course), settled, interrupted, tuple(self._gains))

    def refine(self, inverse_curvature: Matrix, enough: float, max_iter: int, watch: Watch) -> tuple[Trace, int]:
        """Newton's method from the current values, for a judge of many bags whose curvature fewer have shown.

        It ends where one more step promises less than ``enough`` nats, or the last one has gained less; says how many
        steps were made, too.
        """
        start, steps, settled, interrupted = self._get(), 0, False, False
        self._visited = [start]
        with progress(watch, None, _NAME) as self._advance:
            try:
                here, inverse = self._standing(start), inverse_curvature
                while steps < max_iter and not settled:
                    step = _bounded(inverse @ here.slope)
                    there = self._risen(here, step) if here.expected_gain(inverse) >= enough else None
                    settled = there is None or there.value - here.value < enough
                    if there is not None:
                        inverse = _updated(inverse, there.point - here.point, here.slope - there.slope)
                        steps, here = steps + 1, there
                self.inverse_curvature = inverse.__matmul__
            except KeyboardInterrupt:
                interrupted = True
        return self._ended(settled, interrupted), steps

    def _standing(self, point: Vector) -> "_Standing":
        value, slope = self._evaluate(point)
        if self._failures:
            raise NumericalError("the log evidence cannot be evaluated there.")
        return _Standing(point, -value, -slope)

    def _risen(self, here: "_Standing", step: Vector) -> "_Standing | None":
        """Where a step leads, or a part of it, if that is no lower than here, as far as the judge can tell."""
        for length in _LENGTHS:
            with suppress(NumericalError):
                there = self._standing(here.point + length * step)
                if there.value > here.value - self._rough:
                    return there
        return None

    def _climb(self, point: Vector, options: dict[str, float]) -> bool:
        """Search from one point; says whether it settled."""
        self._reached, self._before, self._idle = -math.inf, -math.inf, 0
        self._seen, self._visited = {}, [point]
        try:
            found = minimize(self._patient, point, jac=True, method="L-BFGS-B", options=options, callback=self._look)
        except _Enough:
            return True
        return not self._failures and (bool(found.success) or self._settled())

    def _known_curvature(self) -> Callable[[Vector], Vector]:
        """The inverse curvature of L-BFGS from the points that the last search went through."""
        points = [point for point in self._visited if point.tobytes() in self._seen]
        steps, changes = (np.diff(rows, axis=0) for rows in (points, [self._seen[point.tobytes()] for point in points]))
        curved = np.einsum("ij,ij->i", steps, changes) > 0
        if not curved.any():
            return lambda vector: vector
        matvec: Callable[[Vector], Vector] = LbfgsInvHessProduct(steps[curved], changes[curved]).matvec
        return matvec

    def expected_gain(self, inverse_curvature: Callable[[Vector], Vector], share: float) -> float:
        """Nats that one step of Newton's method promises here, by a share of an inverse curvature known before.

        With gradient g and curvature H the step H⁻¹g gains gᵀH⁻¹g/2.
        """
        here = self._get()
        for block in self._blocks:
            block.clear()
        _, gradient = self._posterior(here)
        return 0.5 * share * float(gradient @ np.asarray(inverse_curvature(gradient)))

    def _look(self, point: Vector) -> None:
        """Called after every iteration: stop where it gained no more than the judge may be off by."""
        self._visited.append(point.copy())
        gained, self._before = self._reached - self._before, self._reached
        if gained < self._rough:
            raise _Enough

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
            self._failures += 1
            self._record()
            return self._wall(vector), np.zeros_like(vector)
        self._failures = 0
        self._seen[vector.tobytes()] = -gradient
        self._idle = 0 if value > self._reached + self._rough else self._idle + 1
        self._reached = max(self._reached, value)
        if value > self._best:
            self._best, self._best_at = value, vector.copy()
        self._record()
        return -value, -gradient

    def _patient(self, vector: Vector) -> tuple[float, Vector]:
        """The same, until too many in a row have gained nothing that the judge could tell."""
        found = self._evaluate(vector)
        if not self._failures and self._rough > 0 and self._idle >= _IDLE:
            raise _Enough
        return found

    def _wall(self, vector: Vector) -> float:
        """What a point that cannot be evaluated counts as: as much worse as the slope had promised it to be better.

        A parabola through it has its minimum at a quarter of the step, where the line search looks next. (With a very
        large value it would look next to where it stands, and end there.)
        """
        here = self._visited[-1]
        slope = self._seen.get(here.tobytes())
        if slope is None:
            return _REFUSED
        return -self._reached + max(abs(float(slope @ (vector - here))), 1.0)

    def _record(self) -> None:
        self._course.append(self._best)
        self._advance(self._best)

    def _posterior(self, vector: Vector) -> tuple[float, Vector]:
        """Log evidence and log prior with their slope; the judge is not asked twice in a row about the same point."""
        if self._asked is None or not np.array_equal(self._asked[0], vector):
            self._asked = vector.copy(), *self._judged(vector)
        return self._asked[1:]

    def _judged(self, vector: Vector) -> tuple[float, Vector]:
        log_evidence = self._judge()
        away = (vector - self._centre) / self._prior_width
        gradient = np.concatenate([block.gradient() for block in self._blocks])
        return log_evidence - 0.5 * float(away @ away), gradient - away / self._prior_width

    def _get(self) -> Vector:
        return np.concatenate([block.get() for block in self._blocks])

    def _set(self, vector: Vector) -> None:
        for block, part in zip(self._blocks, np.split(vector, self._cuts), strict=True):
            block.set(part)


class _Standing(NamedTuple):
    """A point of a search, with the log evidence (and log prior) there and its gradient."""

    point: Vector
    value: float
    slope: Vector

    def expected_gain(self, inverse_curvature: Matrix) -> float:
        """Nats that one step of Newton's method promises: gᵀH⁻¹g/2."""
        return 0.5 * float(self.slope @ inverse_curvature @ self.slope)


def _bounded(step: Vector) -> Vector:
    """A step that changes no parameter by more than ``_FARTHEST``: no curvature is known that far away."""
    return step * min(1.0, _FARTHEST / max(float(np.abs(step).max()), _FARTHEST))


def as_matrix(inverse_curvature: Callable[[Vector], Vector], free: int) -> Matrix:
    """The inverse curvature of so many parameters, column by column."""
    return np.array([inverse_curvature(one) for one in np.eye(free)])


def _updated(inverse: Matrix, step: Vector, change: Vector) -> Matrix:
    """The inverse curvature after a step (Broyden, Fletcher, Goldfarb & Shanno); as it was where none is seen."""
    curved = float(step @ change)
    if curved <= 0:
        return inverse
    turn = np.eye(len(step)) - np.outer(step, change) / curved
    return turn @ inverse @ turn.T + np.outer(step, step) / curved


def iteration_limit(free: int) -> int:
    """Iterations that a search over so many parameters may take."""
    return min(_ITERATIONS + free, _MOST_ITERATIONS)


def joined_traces(traces: Sequence[Trace]) -> Trace:
    """One search after the other; the values may be of other rows, so only the course within each means anything."""
    values = np.concatenate([trace.values for trace in traces])
    last = traces[-1]
    return Trace(last.name, values, np.zeros_like(values), last.converged, last.interrupted, traces[0].gains)


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
