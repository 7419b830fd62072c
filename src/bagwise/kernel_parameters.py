"""The free parameters of a kernel as one vector, with weak priors, for those who search over them."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.kernels import Kernel

Vector = NDArray[np.float64]

# Weak priors on logarithms, for standardised features (theory section 1.8): centre and standard deviation.
LENGTHSCALE_SPREAD = 1.0  # around √D
VARIANCE_CENTRE, VARIANCE_SPREAD = 8.0, 1.5
OTHER_SPREAD = 1.5  # around the value the kernel came with


class _Entry(NamedTuple):
    raw: Tensor
    constraint: Any  # None: the parameter is used as it is
    centre: float | Vector
    spread: float

    @property
    def logarithmic(self) -> bool:
        c = self.constraint
        return c is not None and float(c.lower_bound.max()) >= 0 and math.isinf(float(c.upper_bound.min()))


class KernelParameters:
    """Positive parameters by their logarithm, others as gpytorch keeps them, one after the other in a vector."""

    def __init__(self, kernel: Kernel, n_features: int) -> None:
        self._entries = [
            _entry(name, raw, constraint, kernel, n_features)
            for name, raw, constraint in kernel.named_parameters_and_constraints()
            if raw.requires_grad
        ]
        sizes = [entry.raw.numel() for entry in self._entries]
        self._cuts = np.cumsum(sizes)[:-1]
        self.centre = _joined([np.broadcast_to(e.centre, n) for e, n in zip(self._entries, sizes, strict=True)])
        self.spread = _joined([np.full(n, e.spread) for e, n in zip(self._entries, sizes, strict=True)])

    def get(self) -> Vector:
        """The current values."""
        return _joined([_natural(entry).log() if entry.logarithmic else entry.raw for entry in self._entries])

    def set(self, vector: Vector) -> None:
        """Put values into the kernel."""
        with torch.no_grad():
            for entry, values in zip(self._entries, np.split(vector, self._cuts), strict=True):
                new = torch.as_tensor(values, dtype=entry.raw.dtype, device=entry.raw.device).reshape(entry.raw.shape)
                entry.raw.copy_(entry.constraint.inverse_transform(new.exp()) if entry.logarithmic else new)

    def gradient(self) -> Vector:
        """The gradient that ``backward`` left, in the coordinates of the vector."""
        return _joined([_chained(entry) for entry in self._entries])

    def clear(self) -> None:
        """Forget the gradient."""
        for entry in self._entries:
            entry.raw.grad = None


def _entry(name: str, raw: Tensor, constraint: Any, kernel: Kernel, n_features: int) -> _Entry:
    entry = _Entry(raw, constraint, 0.0, OTHER_SPREAD)
    if not entry.logarithmic:
        return entry._replace(centre=raw.detach().cpu().numpy().ravel().copy())
    owner = kernel.get_submodule(".".join(name.split(".")[:-1]))
    seen = n_features if owner.active_dims is None else len(owner.active_dims)
    if name.endswith("raw_lengthscale"):
        return entry._replace(centre=0.5 * math.log(seen), spread=LENGTHSCALE_SPREAD)
    if name.endswith("raw_outputscale"):
        return entry._replace(centre=math.log(VARIANCE_CENTRE), spread=VARIANCE_SPREAD)
    if name.endswith("raw_variance"):  # of a linear kernel, where x·x' grows with the number of features
        return entry._replace(centre=math.log(VARIANCE_CENTRE / seen), spread=VARIANCE_SPREAD)
    return entry._replace(centre=_natural(entry).log().detach().cpu().numpy().ravel())


def _natural(entry: _Entry) -> Tensor:
    value: Tensor = entry.constraint.transform(entry.raw)
    return value


def _chained(entry: _Entry) -> Tensor:
    """dE/d log value = dE/d raw · value / (d value / d raw)."""
    gradient = torch.zeros_like(entry.raw) if entry.raw.grad is None else entry.raw.grad
    if not entry.logarithmic:
        return gradient
    with torch.enable_grad():
        raw = entry.raw.detach().requires_grad_()
        value = entry.constraint.transform(raw)
        (slope,) = torch.autograd.grad(value.sum(), raw)
    chained: Tensor = gradient * value.detach() / slope
    return chained


def _joined(parts: list[Any]) -> Vector:
    arrays = [p.detach().cpu().double().numpy().ravel() if isinstance(p, Tensor) else np.ravel(p) for p in parts]
    return np.concatenate(arrays).astype(np.float64) if arrays else np.zeros(0)
