"""The GPyTorch boundary: names or gpytorch kernels in, dense float tensors out.

Nothing above this file and ``kernel_files.py`` knows of GPyTorch.
"""

import copy
import math
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise._validation import check_option, check_positive
from bagwise.exceptions import BagDataError, NumericalError

with warnings.catch_warnings():
    # linear_operator, which gpytorch brings, calls torch.jit.script while it is imported; newer versions of torch warn.
    warnings.filterwarnings("ignore", message="`torch.jit.script`")
    from gpytorch import constraints as constraints
    from gpytorch import kernels as kernels
    from gpytorch.kernels import Kernel as Kernel

NAMES = ("rbf", "exponential", "matern32", "matern52", "linear", "rbf+linear")
COLUMN_NAMES = (*NAMES, "sigmoid")  # where k(x, Z) is used as it is and k need not be positive definite
MATERN = {"exponential": 0.5, "matern32": 1.5, "matern52": 2.5}


def make_kernel(
    kernel: Any, n_features: int, lengthscale: float | None, dtype: torch.dtype, names: tuple[str, ...] = NAMES
) -> Kernel:
    """A kernel of our own to use and train: built from one of the ``names``, or copied from a gpytorch kernel.

    Named kernels have variance 1 and lengthscale ℓ (√D if not given). "linear" is x·x'/ℓ², so that standardised
    features give variance 1 on average whatever D is; "rbf+linear" is the sum of the two; "sigmoid" is
    tanh(x·x'/ℓ² + 1).
    """
    if isinstance(kernel, Kernel):
        if lengthscale is not None:
            raise BagDataError("lengthscale is for kernels given by name; set it on the gpytorch kernel itself.")
        return check_fits(exact_near_zero(copy.deepcopy(kernel).to(dtype)), n_features)
    if not isinstance(kernel, str):
        raise BagDataError(f"kernel={kernel!r}: expected one of {', '.join(map(repr, names))}, or a gpytorch kernel.")
    check_option("kernel", kernel, names)
    scale = math.sqrt(n_features) if lengthscale is None else check_positive("lengthscale", lengthscale)
    return exact_near_zero(_named_kernel(kernel, scale).to(dtype))


def trainable_kernel(kernel: Any, n_features: int, lengthscale: float | None, variance: float, ard: bool) -> Any:
    """A kernel given by name with a variance of its own and, if asked for, one lengthscale per feature.

    A gpytorch kernel already says what is free in it and is returned as it is.
    """
    if not isinstance(kernel, str):
        if ard:
            raise BagDataError("ard=True is for kernels given by name; set ard_num_dims on the gpytorch kernel itself.")
        return kernel
    if kernel == "rbf+linear":
        own = (n_features, lengthscale, variance / 2.0)
        return trainable_kernel("rbf", *own, ard) + trainable_kernel("linear", *own, False)
    scaled = kernels.ScaleKernel(make_kernel(kernel, n_features, lengthscale, torch.float64)).double()
    scaled.outputscale = variance
    if ard:
        if kernel == "linear":
            raise BagDataError("ard=True needs a kernel with lengthscales; kernel='linear' has none.")
        made = _named_kernel(kernel, 1.0, n_features)
        made.lengthscale = scaled.base_kernel.lengthscale.detach().expand(1, n_features)
        scaled.base_kernel = made
    if kernel == "linear":  # the scale in front is enough
        scaled.base_kernel.raw_variance.requires_grad_(False)
    return scaled


class MappedKernel(Kernel):
    """k(x, x') = base(map(x), map(x')): a kernel on the features that a torch module makes of the rows."""

    def __init__(self, base_kernel: Kernel, feature_map: torch.nn.Module) -> None:
        super().__init__()
        self.base_kernel, self.feature_map = base_kernel, feature_map

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **others: Any) -> Tensor:
        """The base kernel between mapped rows."""
        covariance = self.base_kernel(self._mapped(x1), self._mapped(x2), diag=diag)
        dense: Tensor = covariance if diag else covariance.to_dense()
        return dense

    def _mapped(self, x: Tensor) -> Tensor:
        features: Tensor = self.feature_map(x)
        if not bool(torch.isfinite(features).all()):
            raise NumericalError("feature_map: it returns values that are not finite for some of the rows.")
        return features


class SigmoidKernel(Kernel):
    """tanh(x·x'/ℓ² + offset): not positive definite, so for kernel machines only, never for a Gaussian process."""

    has_lengthscale = True

    def __init__(self, offset: float = 1.0, ard_num_dims: int | None = None, active_dims: Any = None) -> None:
        super().__init__(ard_num_dims=ard_num_dims, active_dims=active_dims)
        self.register_parameter("offset", torch.nn.Parameter(torch.tensor(offset)))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **others: Any) -> Tensor:
        """Rows against rows, or each against its own."""
        left, right = x1 / self.lengthscale, x2 / self.lengthscale
        product = (left * right).sum(-1) if diag else left @ right.mT
        return torch.tanh(product + self.offset)


def is_linear(kernel: Any) -> bool:
    """Whether a kernel, or its name, is v x·x'."""
    return kernel == "linear" if isinstance(kernel, str) else linear_variance(kernel) is not None


def linear_variance(kernel: Kernel) -> Tensor | None:
    """v of a kernel v x·x', as a scalar to differentiate by; None for any other kernel."""
    if isinstance(kernel, kernels.ScaleKernel) and kernel.active_dims is None:
        inner = linear_variance(kernel.base_kernel)
        return None if inner is None else inner * kernel.outputscale
    if type(kernel) is not kernels.LinearKernel or kernel.active_dims is not None:
        return None
    variance: Tensor = kernel.variance
    return variance.reshape(()) if variance.numel() == 1 else None


def is_isotropic(kernel: Kernel) -> bool:
    """Whether a kernel sees nothing of two rows but their lengths and their distance."""
    if kernel.active_dims is not None:
        return False
    if isinstance(kernel, kernels.ScaleKernel):
        return is_isotropic(kernel.base_kernel)
    if isinstance(kernel, kernels.AdditiveKernel | kernels.ProductKernel):
        return all(is_isotropic(part) for part in kernel.kernels)
    if type(kernel) in (kernels.RBFKernel, kernels.MaternKernel):
        return bool(kernel.ard_num_dims is None)
    return linear_variance(kernel) is not None


def relevance(kernel: Kernel, n_features: int) -> NDArray[np.float64] | None:
    """1/ℓ² of every feature, as shares of one; None where no lengthscale is to be found."""
    found = next((part for part in kernel.modules() if getattr(part, "has_lengthscale", False)), None)
    if found is None or found.active_dims is not None or isinstance(kernel, MappedKernel):
        return None
    weight = found.lengthscale.detach().cpu().double().numpy().ravel() ** -2
    shares: NDArray[np.float64] = np.broadcast_to(weight, n_features) / np.broadcast_to(weight, n_features).sum()
    return shares


def check_fits(kernel: Kernel, n_features: int) -> Kernel:
    """The kernel, if it gives a matrix for rows of ``n_features`` numbers (its ARD, its active_dims, no batches)."""
    probe = next(kernel.parameters(), torch.zeros(())).new_zeros(3, n_features)
    try:
        with torch.no_grad():
            found = tuple(cross(kernel, probe, probe).shape)
    except (RuntimeError, IndexError, ValueError) as error:
        raise BagDataError(f"the kernel {summary(kernel)} does not fit {n_features} features ({error}).") from error
    if found != (3, 3):
        raise BagDataError(
            f"the kernel {summary(kernel)} gives an array of shape {found} for 3 rows, where (3, 3) is needed; "
            "use a kernel without batch_shape."
        )
    return kernel


def exact_near_zero(kernel: Kernel) -> Kernel:
    """The kernel, with exact distances where it has a kink at distance 0 (the exponential kernel).

    By matrix products a distance of 0 comes out as 1e-8 or so, depending on what else is in the batch; every other
    kernel here squares that away.
    """
    for part in kernel.modules():
        if isinstance(part, kernels.MaternKernel) and part.nu == 0.5:
            part.covar_dist = _exact_distance
    return kernel


def _exact_distance(x1: Tensor, x2: Tensor, diag: bool = False, **others: Any) -> Tensor:
    distance: Tensor
    if diag:
        distance = torch.linalg.vector_norm(x1 - x2, dim=-1)
    else:
        distance = torch.cdist(x1, x2, compute_mode="donot_use_mm_for_euclid_dist")
    return distance


def _named_kernel(name: str, lengthscale: float, ard_num_dims: int | None = None) -> Kernel:
    if name == "rbf+linear":
        return _named_kernel("rbf", lengthscale, ard_num_dims) + _named_kernel("linear", lengthscale)
    exact = torch.tensor(lengthscale, dtype=torch.float64)  # gpytorch would round a Python number to single precision
    if name == "linear":
        made = kernels.LinearKernel().double()
        made.variance = 1.0 / exact**2
        return made
    shape = {"ard_num_dims": ard_num_dims}
    plain = {"rbf": kernels.RBFKernel, "sigmoid": SigmoidKernel}
    made = plain[name](**shape) if name in plain else kernels.MaternKernel(nu=MATERN[name], **shape)
    made = made.double()
    made.lengthscale = exact
    return made


def cross(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """k(A, B) as a dense matrix.

    One more row on the right keeps gpytorch from noticing where A and B are the same: for a sum with a linear kernel it
    would factor the matrix on the way, by a Cholesky (and a jitter) of its own.
    """
    matrix: Tensor = kernel(A, torch.cat([B, B[:1]])).to_dense()
    return matrix[:, :-1]


def gram(kernel: Kernel, A: Tensor) -> Tensor:
    """k(A, A), symmetric to the last digit, with ``diagonal`` on its diagonal."""
    matrix = cross(kernel, A, A)
    matrix = 0.5 * (matrix + matrix.mT)
    return matrix + torch.diag_embed(diagonal(kernel, A) - matrix.diagonal())


def diagonal(kernel: Kernel, A: Tensor) -> Tensor:
    """k(a, a) for every row of A: never assumed to be 1."""
    values: Tensor = kernel(A, diag=True)
    return values


def pairs(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """k(a, b) of every row of A with the row of B beside it.

    Kernels of distances see the differences themselves: gpytorch would centre by the mean of all rows, and rounding
    would let one row move another.
    """
    if isinstance(kernel, MappedKernel):
        return pairs(kernel.base_kernel, kernel._mapped(A), kernel._mapped(B))
    if getattr(kernel, "active_dims", None) is None:
        if isinstance(kernel, kernels.ScaleKernel):
            scaled: Tensor = kernel.outputscale * pairs(kernel.base_kernel, A, B)
            return scaled
        if isinstance(kernel, kernels.AdditiveKernel | kernels.ProductKernel):
            parts = torch.stack([pairs(part, A, B) for part in kernel.kernels])
            return parts.sum(0) if isinstance(kernel, kernels.AdditiveKernel) else parts.prod(0)
        if isinstance(kernel, kernels.RBFKernel):
            return torch.exp(-0.5 * ((A - B) / kernel.lengthscale).square().sum(-1))
        if isinstance(kernel, kernels.MaternKernel):
            return _matern(kernel.nu, torch.linalg.vector_norm((A - B) / kernel.lengthscale, dim=-1))
    values: Tensor = kernel(A, B, diag=True)
    return values


def _matern(nu: float, distance: Tensor) -> Tensor:
    """The Matérn kernel of variance 1 at some distances."""
    scaled = math.sqrt(2.0 * nu) * distance
    bend = {0.5: 0.0, 1.5: 0.0, 2.5: 1.0 / 3.0}[nu]
    return ((nu > 0.5) * scaled + bend * scaled.square() + 1.0) * torch.exp(-scaled)


def summary(kernel: Kernel) -> str:
    """One readable line: the kernel and its parameters in natural units."""
    if isinstance(kernel, kernels.AdditiveKernel | kernels.ProductKernel):
        joint = " + " if isinstance(kernel, kernels.AdditiveKernel) else " × "
        return "(" + joint.join(summary(part) for part in kernel.kernels) + ")"
    inner = f"{summary(kernel.base_kernel)}, " if hasattr(kernel, "base_kernel") else ""
    own = [name.removeprefix("raw_") for name in kernel._parameters]
    values = ", ".join(f"{name} {_readable(getattr(kernel, name))}" for name in own)
    return f"{type(kernel).__name__}({inner}{values})"


def _readable(value: Tensor) -> str:
    flat = value.detach().reshape(-1)
    return f"{float(flat[0]):.4g}" if len(flat) == 1 else f"{float(flat.min()):.4g}–{float(flat.max()):.4g}"
