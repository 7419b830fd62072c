"""The GPyTorch boundary: names or gpytorch kernels in, dense float tensors out.

Nothing above this file knows of GPyTorch. A kernel is saved by a small grammar: the name of a known class, the
arguments that shape it, the constraints of its parameters, its parts, and its parameters as plain tensors.
"""

import copy
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
        return copy.deepcopy(kernel).to(dtype)
    if not isinstance(kernel, str):
        raise BagDataError(f"kernel={kernel!r}: expected one of {', '.join(map(repr, NAMES))}, or a gpytorch kernel.")
    check_option("kernel", kernel, NAMES)
    scale = math.sqrt(n_features) if lengthscale is None else check_positive("lengthscale", lengthscale)
    return _named_kernel(kernel, scale).to(dtype)


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
        if kind not in ("Positive", "GreaterThan", "LessThan", "Interval"):
            raise ModelFileError(f"a kernel with constraint {kind} on {name} cannot be saved (it works otherwise).")
        found[name] = [kind, float(constraint.lower_bound), float(constraint.upper_bound)]
    return found


def parameters(kernel: Kernel) -> dict[str, Tensor]:
    """The raw parameters of a kernel by name."""
    return {name: value.detach().clone() for name, value in kernel.named_parameters()}


def rebuild(tree: dict[str, Any], values: dict[str, Tensor], dtype: torch.dtype) -> Kernel:
    """The kernel that ``describe`` and ``parameters`` describe."""
    kernel = _build(tree).to(dtype)
    own = dict(kernel.named_parameters())
    if set(own) != set(values):
        raise ModelFileError(f"the kernel needs the parameters {sorted(own)}, the file has {sorted(values)}.")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.data = values[name].to(dtype).clone()
    return kernel


def _build(tree: dict[str, Any]) -> Kernel:
    name = tree.get("kernel")
    parts = [_build(part) for part in tree.get("parts", [])]
    if name in _NESTED:
        return getattr(kernels, name)(*parts)
    if name not in (*_PLAIN, *_SHAPED, "ScaleKernel"):
        raise ModelFileError(f"the file names an unknown kernel {name!r}.")
    arguments = {key: value for key, value in tree["arguments"].items() if value is not None}
    kernel = getattr(kernels, name)(*parts, **arguments)
    for parameter, (kind, lower, upper) in tree["constraints"].items():
        kernel.register_constraint(parameter.removesuffix("_constraint"), _build_constraint(kind, lower, upper))
    return kernel


def _build_constraint(kind: str, lower: float, upper: float) -> constraints.Interval:
    if kind == "Positive":
        return constraints.Positive()
    if kind == "GreaterThan":
        return constraints.GreaterThan(lower)
    return constraints.LessThan(upper) if kind == "LessThan" else constraints.Interval(lower, upper)


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
