"""Limited-memory BFGS for several separable problems at once, one column each, driven from outside.

The loop, the trace and the sums over chunks belong to others, so the optimiser must be asked for one iteration at a
time, and every column must keep a memory and a step length of its own (fitting K labels together has to give the K
separate fits). No library offers that; the recursion itself is the textbook one (Nocedal & Wright, algorithm 7.4).
"""

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

# (R, K) -> values (K,) and gradients (R, K)
Objective = Callable[[Tensor], tuple[Tensor, Tensor]]

_ARMIJO = 1e-4
_HALVINGS = 12


class ColumnwiseLBFGS:
    """Maximise K functions of R variables; ``x`` is (R, K).

    The coordinates must be such that the plain gradient step ``x + gradient`` never lowers a function: it is the first
    step, and the step of any column in which the line search fails. The objective is handed in at every step and not
    kept, so that whoever owns both is freed as soon as it is done with.
    """

    def __init__(self, objective: Objective, x: Tensor, memory: int = 20) -> None:
        self.x = x
        self.value, self.gradient = objective(x)
        self._pairs: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=memory)

    def step(self, objective: Objective) -> None:
        """One iteration in every column."""
        direction = self._direction()
        slope = (direction * self.gradient).sum(0)
        uphill = slope > 0
        direction = torch.where(uphill, direction, self.gradient)
        slope = torch.where(uphill, slope, self.gradient.square().sum(0))
        self._accept(*self._search(objective, direction, slope))

    def gradient_step(self, objective: Objective) -> None:
        """The plain step, in every column."""
        x = self.x + self.gradient
        self._accept(x, *objective(x))

    def _direction(self) -> Tensor:
        """The two-loop recursion; a column without a usable pair goes along its gradient."""
        direction, weights = self.gradient.clone(), []
        for change, turn, rho in reversed(self._pairs):
            weights.append(rho * (change * direction).sum(0))
            direction -= weights[-1] * turn
        if self._pairs:
            _, turn, rho = self._pairs[-1]
            size = rho * turn.square().sum(0)
            direction /= torch.where(size > 0, size, torch.ones_like(size))
        for change, turn, rho in self._pairs:
            direction += (weights.pop() - rho * (turn * direction).sum(0)) * change
        return direction

    def _search(self, objective: Objective, direction: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Halve the step of every column that does not rise enough; in the end fall back on the gradient step."""
        length = torch.ones_like(slope)
        slack = 10.0 * torch.finfo(slope.dtype).eps * self.value.abs().clamp(min=1.0)  # rounding of the value itself
        for _ in range(_HALVINGS):
            x = self.x + length * direction
            value, gradient = objective(x)
            enough = value >= self.value + _ARMIJO * length * slope - slack
            if bool(enough.all()):
                return x, value, gradient
            length = torch.where(enough, length, 0.5 * length)
        x = torch.where(enough, x, self.x + self.gradient)
        return x, *objective(x)

    def _accept(self, x: Tensor, value: Tensor, gradient: Tensor) -> None:
        change, turn = x - self.x, self.gradient - gradient
        curvature = (change * turn).sum(0)
        usable = curvature > 1e-12 * change.square().sum(0).sqrt() * turn.square().sum(0).sqrt()
        rho = torch.where(usable, 1.0 / curvature.clamp(min=torch.finfo(x.dtype).tiny), torch.zeros_like(curvature))
        self._pairs.append((change, turn, rho))
        self.x, self.value, self.gradient = x, value, gradient
