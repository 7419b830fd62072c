"""The free parameters of a kernel as one vector, with weak priors, for those who search over them."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.gp.kernels import Kernel, MappedKernel

Vector = NDArray[np.float64]

# Weak priors on logarithms, for standardised features (theory section 1.8): centre and standard deviation.
LENGTHSCALE_SPREAD = 1.0  # around √D
VARIANCE_CENTRE, VARIANCE_SPREAD = 8.0, 1.5
OTHER_SPREAD = 1.5  # around the value the kernel came with

# Where else a search may begin: by how much variances and lengthscales are larger, where there are such.
LARGER_VARIANCES, LARGER_LENGTHSCALES = (1.0, 8.0), (1.0, 2.0, 4.0)
OTHER_VARIANCES, OTHER_LENGTHSCALES = (1.0, 1 / 8), (1 / 3, 3.0)  # a standard deviation of the priors away, or more
_VARIANCES = ("raw_outputscale", "raw_variance")


class _Entry(NamedTuple):
    name: str
    raw: Tensor
    constraint: Any  # None: the parameter is used as it is
    centre: float | Vector = 0.0
    spread: float = OTHER_SPREAD

    @property
    def logarithmic(self) -> bool:
        c = self.constraint
        return c is not None and float(c.lower_bound.max()) >= 0 and math.isinf(float(c.upper_bound.min()))


class KernelParameters:
    """Positive parameters by their logarithm, others as gpytorch keeps them, one after the other in a vector.

    A parameter with a lower bound ℓ ≥ 0 is there as log(value − ℓ), so that no point of the search lies outside; with
    two bounds it stays as gpytorch keeps it. A parameter that needs no gradient is not free. Priors that gpytorch holds
    for the kernel play no part: lengthscales are expected around √D and variances around 8, as on standardised rows;
    with ``start_is_centre`` everything is expected around the values that the kernel comes with.
    """

    def __init__(self, kernel: Kernel, n_features: int, start_is_centre: bool = False) -> None:
        seen = _mapped_features(kernel, n_features)
        self._entries = [
            _entry(name, raw, constraint, kernel, None if start_is_centre else seen)
            for name, raw, constraint in kernel.named_parameters_and_constraints()
            if raw.requires_grad
        ]
        sizes = [entry.raw.numel() for entry in self._entries]
        self._cuts = np.cumsum(sizes)[:-1]
        self.centre = _joined([np.broadcast_to(e.centre, n) for e, n in zip(self._entries, sizes, strict=True)])
        self.spread = _joined([np.full(n, e.spread) for e, n in zip(self._entries, sizes, strict=True)])

    def get(self) -> Vector:
        """The current values."""
        return _joined([_above(entry).log() if entry.logarithmic else entry.raw for entry in self._entries])

    def set(self, vector: Vector) -> None:
        """Put values into the kernel."""
        with torch.no_grad():
            for entry, values in zip(self._entries, np.split(vector, self._cuts), strict=True):
                new = torch.as_tensor(values, dtype=entry.raw.dtype, device=entry.raw.device).reshape(entry.raw.shape)
                c = entry.constraint
                entry.raw.copy_(c.inverse_transform(new.exp() + c.lower_bound) if entry.logarithmic else new)

    def starts(self) -> list[Vector]:
        """Where a search may begin: here, and where variances and lengthscales are some times larger."""
        return self._times(LARGER_VARIANCES, LARGER_LENGTHSCALES)

    def other_starts(self) -> list[Vector]:
        """Where a search may begin that found nothing from here: at shorter and longer lengthscales, and variances."""
        found = self._times(OTHER_VARIANCES, OTHER_LENGTHSCALES)
        return [start for start in found if not np.array_equal(start, self.get())]

    def _times(self, of_variances: tuple[float, ...], of_lengthscales: tuple[float, ...]) -> list[Vector]:
        """The current values, their variances and lengthscales times all pairs of factors."""
        here = self.get()
        variances, lengthscales = (self._named(names) for names in (_VARIANCES, ("raw_lengthscale",)))
        return [
            here + math.log(variance) * variances + math.log(lengthscale) * lengthscales
            for variance in (of_variances if variances.any() else (1.0,))
            for lengthscale in (of_lengthscales if lengthscales.any() else (1.0,))
        ]

    def _named(self, names: tuple[str, ...]) -> Vector:
        """1 for the entries of such parameters that are there by their logarithm, 0 for all others."""
        return _joined([np.full(e.raw.numel(), float(e.logarithmic and e.name.endswith(names))) for e in self._entries])

    def gradient(self) -> Vector:
        """The gradient that ``backward`` left, in the coordinates of the vector."""
        return _joined([_chained(entry) for entry in self._entries])

    def clear(self) -> None:
        """Forget the gradient."""
        for entry in self._entries:
            entry.raw.grad = None


def _mapped_features(kernel: Kernel, n_features: int) -> int:
    """How many features the kernel's lengthscales see."""
    if not isinstance(kernel, MappedKernel):
        return n_features
    like = next(kernel.parameters())
    with torch.no_grad():
        return int(kernel.feature_map(torch.zeros(2, n_features, dtype=like.dtype, device=like.device)).shape[1])


def _entry(name: str, raw: Tensor, constraint: Any, kernel: Kernel, n_features: int | None) -> _Entry:
    entry = _Entry(name, raw, constraint)
    if not entry.logarithmic:
        return entry._replace(centre=raw.detach().cpu().numpy().ravel().copy())
    if n_features is None:
        spread = LENGTHSCALE_SPREAD if name.endswith("raw_lengthscale") else OTHER_SPREAD
        return entry._replace(centre=_above(entry).log().detach().cpu().double().numpy().ravel(), spread=spread)
    owner = kernel.get_submodule(".".join(name.split(".")[:-1]))
    seen = n_features if owner.active_dims is None else len(owner.active_dims)
    if name.endswith("raw_lengthscale"):
        return entry._replace(centre=_log_above(entry, math.sqrt(seen)), spread=LENGTHSCALE_SPREAD)
    if name.endswith("raw_outputscale"):
        return entry._replace(centre=_log_above(entry, VARIANCE_CENTRE), spread=VARIANCE_SPREAD)
    if name.endswith("raw_variance"):  # of a linear kernel, where x·x' grows with the number of features
        return entry._replace(centre=_log_above(entry, VARIANCE_CENTRE / seen), spread=VARIANCE_SPREAD)
    return entry._replace(centre=_above(entry).log().detach().cpu().double().numpy().ravel())


def _log_above(entry: _Entry, value: float) -> Vector:
    """log(value − ℓ), or what the kernel came with where its bound ℓ forbids the value."""
    room = value - entry.constraint.lower_bound.detach().cpu().double()
    start = _above(entry).detach().cpu().double()
    return torch.where(room > 0, room, start).log().expand_as(start).numpy().ravel()


def _above(entry: _Entry) -> Tensor:
    """value − ℓ."""
    above: Tensor = entry.constraint.transform(entry.raw) - entry.constraint.lower_bound
    return above


def _chained(entry: _Entry) -> Tensor:
    """dE/d log(value − ℓ) = dE/d raw · (value − ℓ) / (d value / d raw)."""
    gradient = torch.zeros_like(entry.raw) if entry.raw.grad is None else entry.raw.grad
    if not entry.logarithmic:
        return gradient
    with torch.enable_grad():
        raw = entry.raw.detach().requires_grad_()
        above = _above(entry._replace(raw=raw))
        (slope,) = torch.autograd.grad(above.sum(), raw)
    chained: Tensor = gradient * above.detach() / slope
    return chained


def _joined(parts: list[Any]) -> Vector:
    arrays = [p.detach().cpu().double().numpy().ravel() if isinstance(p, Tensor) else np.ravel(p) for p in parts]
    return np.concatenate(arrays).astype(np.float64) if arrays else np.zeros(0)
