"""A few steps of Adam on the parameters of a kernel, between rounds of something else that moves too."""

import math
from typing import Any

import numpy as np
import torch

from bagwise.exceptions import NumericalError
from bagwise.gp.kernel_parameters import KernelParameters

RATE = 0.1  # of the published experiments, falling to 0 along half a cosine


class KernelAscent:
    """Adam on the logarithms of a kernel's parameters, with their weak priors.

    Whoever uses it leaves the gradient of a negative log evidence in the parameters (``backward``) and calls ``step``.
    """

    def __init__(self, kernel: Any, n_features: int, n_steps: int, rate: float = RATE) -> None:
        self._parameters = KernelParameters(kernel, n_features)
        self._vector = torch.from_numpy(self._parameters.get())
        self._adam = torch.optim.Adam([self._vector], lr=rate)
        self._n_steps, self._made, self._rate = max(1, n_steps), 0, rate
        self._parameters.clear()

    @property
    def free(self) -> int:
        """How many parameters there are."""
        return len(self._vector)

    def step(self) -> float:
        """One step down the gradient that is there; the largest change of any (log) parameter."""
        away = (self._vector.numpy() - self._parameters.centre) / self._parameters.spread
        gradient = self._parameters.gradient() + away / self._parameters.spread
        self._parameters.clear()
        if not np.isfinite(gradient).all():
            raise NumericalError("the gradient of the log evidence is not finite; check the scale of the features.")
        self._adam.param_groups[0]["lr"] = 0.5 * self._rate * (1.0 + math.cos(math.pi * self._made / self._n_steps))
        before = self._vector.clone()
        self._vector.grad = torch.from_numpy(gradient)
        self._adam.step()
        self._made = min(self._made + 1, self._n_steps)
        self._parameters.set(self._vector.numpy())
        return float((self._vector - before).abs().max())
