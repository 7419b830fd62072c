"""The GPyTorch boundary: names or gpytorch kernels in, dense float tensors out.

Nothing above this file knows of GPyTorch. A kernel is saved by a small grammar: the name of a known class, the
arguments that shape it, the constraints of its parameters, its parts, and its parameters as plain tensors.
"""

import copy
import inspect
import math
from typing import Any

import torch
from gpytorch import constraints, kernels
from gpytorch.kernels import Kernel as Kernel
from torch import Tensor

from bagwise._validation import check_option, check_positive
from bagwise.exceptions import BagDataError, ModelFileError

NAMES = ("rbf", "exponential", "matern32", "matern52", "linear")
_MATERN = {"exponential": 0.5, "matern32": 1.5, "matern52": 2.5}


def make_kernel(kernel: Any, n_features: int, lengthscale: float | None, dtype: torch.dtype) -> Kernel:
    """A kernel of our own to use and train: built from a name, or copied from a gpytorch kernel.

    Named kernels have variance 1 and lengthscale ℓ (√D if not given). "linear" is x·x'/ℓ², so that standardised
    features give variance 1 on average whatever D is.
    """
    if isinstance(kernel, Kernel):
        if lengthscale is not None:
            raise BagDataError("lengthscale is for kernels given by name; set it on the gpytorch kernel itself.")
        return check_fits(_exact_near_zero(copy.deepcopy(kernel).to(dtype)), n_features)
    if not isinstance(kernel, str):
        raise BagDataError(f"kernel={kernel!r}: expected one of {', '.join(map(repr, NAMES))}, or a gpytorch kernel.")
    check_option("kernel", kernel, NAMES)
    scale = math.sqrt(n_features) if lengthscale is None else check_positive("lengthscale", lengthscale)
    return _exact_near_zero(_named_kernel(kernel, scale).to(dtype))


def check_fits(kernel: Kernel, n_features: int) -> Kernel:
    """The kernel, if it gives a matrix for rows of ``n_features`` numbers (its ARD, its active_dims, no batches)."""
    probe = torch.zeros(3, n_features, dtype=next(kernel.parameters(), torch.zeros(())).dtype)
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


def _exact_near_zero(kernel: Kernel) -> Kernel:
    """The kernel, with exact distances where it has a kink at distance 0 (the exponential kernel).

    By matrix products a distance of 0 comes out as 1e-8 or so, depending on what else is in the batch; every other
    kernel here squares that away.
    """
    for part in kernel.modules():
        if isinstance(part, kernels.MaternKernel) and part.nu == 0.5:
            part.covar_dist = _exact_distance
    return kernel


def _exact_distance(x1: Tensor, x2: Tensor, diag: bool = False, **others: Any) -> Tensor:
    if diag:
        return torch.linalg.vector_norm(x1 - x2, dim=-1)
    return torch.cdist(x1, x2, compute_mode="donot_use_mm_for_euclid_dist")


def _named_kernel(name: str, lengthscale: float) -> Kernel:
    if name == "linear":
        made = kernels.LinearKernel().double()
        made.variance = 1.0 / lengthscale**2
        return made
    made = kernels.RBFKernel() if name == "rbf" else kernels.MaternKernel(nu=_MATERN[name])
    made = made.double()  # before the parameter is set, so that it is not rounded to single precision
    made.lengthscale = lengthscale
    return made


def cross(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """k(A, B) as a dense matrix."""
    matrix: Tensor = kernel(A, B).to_dense()
    return matrix


def diagonal(kernel: Kernel, A: Tensor) -> Tensor:
    """k(a, a) for every row of A: never assumed to be 1."""
    values: Tensor = kernel(A, diag=True)
    return values


# ---------------------------------------------------------------- saving and loading

_PLAIN = ("RBFKernel", "LinearKernel", "RQKernel", "PeriodicKernel", "CosineKernel", "ConstantKernel")
_SHAPED = {"MaternKernel": "nu", "PolynomialKernel": "power"}
_NESTED = {"AdditiveKernel", "ProductKernel"}
_BOUNDS = {
    "Positive": (),
    "GreaterThan": ("lower_bound",),
    "LessThan": ("upper_bound",),
    "Interval": ("lower_bound", "upper_bound"),
}
_BOUNDS = {
    constraints.Positive: (),
    constraints.GreaterThan: ("lower_bound",),
    constraints.LessThan: ("upper_bound",),
    constraints.Interval: ("lower_bound", "upper_bound"),
}


def describe(kernel: Kernel) -> dict[str, Any]:
    """The structure of a kernel as JSON; its parameters are in ``parameters``."""
    name = type(kernel).__name__
    if type(kernel) is not getattr(kernels, name, None):
        raise ModelFileError(_cannot_save(name))
    if name in _NESTED:
        return {"kernel": name, "parts": [describe(part) for part in kernel.kernels]}
    shape = {
        "ard_num_dims": kernel.ard_num_dims,
        "active_dims": None if kernel.active_dims is None else kernel.active_dims.tolist(),
    }
    tree: dict[str, Any] = {"kernel": name, "arguments": shape, "constraints": _describe_constraints(kernel)}
    if name == "ScaleKernel":
        tree["parts"] = [describe(kernel.base_kernel)]
    elif name in _SHAPED:
        shape[_SHAPED[name]] = getattr(kernel, _SHAPED[name])
    elif name not in _PLAIN:
        raise ModelFileError(_cannot_save(name))
    return tree


def _cannot_save(name: str) -> str:
    known = ", ".join([*_PLAIN, *_SHAPED, "ScaleKernel", *sorted(_NESTED)])
    return f"a model with kernel {name} cannot be saved (it works otherwise); kernels that can: {known}."


def _describe_constraints(kernel: Kernel) -> dict[str, list[Any]]:
    found = {}
    for name, constraint in kernel._constraints.items():
        kind = type(constraint).__name__
        if kind not in _BOUNDS:
            raise ModelFileError(f"a kernel with constraint {kind} on {name} cannot be saved (it works otherwise).")
        found[name] = [kind, *(float(getattr(constraint, bound)) for bound in _BOUNDS[kind])]
    return found


def parameters(kernel: Kernel) -> dict[str, Tensor]:
    """The raw parameters of a kernel by name."""
    return {name: value.detach().clone() for name, value in kernel.named_parameters()}


def rebuild(tree: dict[str, Any], values: dict[str, Tensor], dtype: torch.dtype) -> Kernel:
    """The kernel that ``describe`` and ``parameters`` describe."""
    largest = max((value.numel() for value in values.values()), default=0)
    kernel = _exact_near_zero(_build(tree, largest).to(dtype))
    own = dict(kernel.named_parameters())
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in values.items()}:
        raise ModelFileError(f"the kernel needs the parameters {sorted(own)}, the file has {sorted(values)} or others.")
    for name, parameter in own.items():
        if not bool(torch.isfinite(values[name]).all()):
            raise ModelFileError(f"the kernel's parameter {name} is not finite.")
        parameter.data = values[name].to(dtype).clone()
    return kernel


def _build(tree: dict[str, Any], largest: int) -> Kernel:
    """The kernel with arbitrary parameters, none of more than ``largest`` numbers (a damaged file may ask for any)."""
    name = tree.get("kernel")
    parts = [_build(part, largest) for part in tree.get("parts", [])]
    if name in _NESTED:
        return getattr(kernels, name)(*parts)
    if name not in (*_PLAIN, *_SHAPED, "ScaleKernel"):
        raise ModelFileError(f"the file names an unknown kernel {name!r}.")
    arguments = {key: value for key, value in tree["arguments"].items() if value is not None}
    if arguments.get("ard_num_dims", 0) > largest:
        raise ModelFileError("the file does not hold the parameters that its kernel needs.")
    kernel = getattr(kernels, name)(*parts, **arguments)
    for parameter, constraint in tree["constraints"].items():
        kernel.register_constraint(parameter.removesuffix("_constraint"), _build_constraint(**constraint))
    return kernel


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
