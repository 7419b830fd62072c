"""The GPyTorch boundary: names or gpytorch kernels in, dense float tensors out.

Nothing above this file knows of GPyTorch. A kernel is saved by a small grammar: the name of a known class, the
arguments that shape it, the constraints of its parameters, its parts, and its parameters as plain tensors.
"""

import copy
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise._validation import check_option, check_positive, shorten
from bagwise.exceptions import BagDataError, ModelFileError, NumericalError
from bagwise.gp.feature_maps import describe_feature_map, rebuild_feature_map

with warnings.catch_warnings():
    # linear_operator, which gpytorch brings, calls torch.jit.script while it is imported; newer versions of torch warn.
    warnings.filterwarnings("ignore", message="`torch.jit.script`")
    from gpytorch import constraints, kernels
    from gpytorch.kernels import Kernel as Kernel

NAMES = ("rbf", "exponential", "matern32", "matern52", "linear", "rbf+linear")
COLUMN_NAMES = (*NAMES, "sigmoid")  # where k(x, Z) is used as it is and k need not be positive definite
ROOT = "sqrt_d"  # a lengthscale: √D whatever the scale of the rows
_MATERN = {"exponential": 0.5, "matern32": 1.5, "matern52": 2.5}


def make_kernel(
    kernel: Any, n_features: int, lengthscale: float | str | None, dtype: torch.dtype, names: tuple[str, ...] = NAMES
) -> Kernel:
    """A kernel of our own to use and train: built from one of the ``names``, or copied from a gpytorch kernel.

    Named kernels have variance 1 and lengthscale ℓ (√D if not given, or "sqrt_d"). "linear" is x·x'/ℓ², so that
    standardised features give variance 1 on average whatever D is; "rbf+linear" is the sum of the two; "sigmoid" is
    tanh(x·x'/ℓ² + 1).
    """
    if isinstance(kernel, Kernel):
        if lengthscale is not None:
            raise BagDataError(
                "lengthscale is for kernels given by name; set it on the gpytorch kernel itself, with lengthscale=None."
            )
        return check_fits(_exact_near_zero(copy.deepcopy(kernel).to(dtype)), n_features)
    if not isinstance(kernel, str):
        raise BagDataError(f"kernel={kernel!r}: expected one of {', '.join(map(repr, names))}, or a gpytorch kernel.")
    check_option("kernel", kernel, names)
    return _exact_near_zero(_named_kernel(kernel, _scale(lengthscale, n_features)).to(dtype))


def _scale(lengthscale: float | str | None, n_features: int) -> float:
    if lengthscale is None:
        return math.sqrt(n_features)
    if isinstance(lengthscale, str):
        check_option("lengthscale", lengthscale, (ROOT,))
        return math.sqrt(n_features)
    return check_positive("lengthscale", lengthscale)


def trainable_kernel(kernel: Any, n_features: int, lengthscale: float | str | None, variance: float, ard: bool) -> Any:
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
    made = plain[name](**shape) if name in plain else kernels.MaternKernel(nu=_MATERN[name], **shape)
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


# ---------------------------------------------------------------- saving and loading

_PLAIN = ("RBFKernel", "LinearKernel", "RQKernel", "PeriodicKernel", "CosineKernel", "ConstantKernel", "SigmoidKernel")
_SHAPED = {"MaternKernel": "nu", "PolynomialKernel": "power"}
_NESTED = {"AdditiveKernel", "ProductKernel"}
_DEEPEST = 32  # kernels inside kernels
_HIGHEST_POWER = 100
_BOUNDS = {
    constraints.Positive: (),
    constraints.GreaterThan: ("lower_bound",),
    constraints.LessThan: ("upper_bound",),
    constraints.Interval: ("lower_bound", "upper_bound"),
}


def describe(kernel: Kernel, depth: int = 0) -> dict[str, Any]:
    """The structure of a kernel as JSON; its parameters are in ``parameters``."""
    name = type(kernel).__name__
    if depth > _DEEPEST:
        raise ModelFileError(f"a kernel inside more than {_DEEPEST} others cannot be saved (it works otherwise).")
    if isinstance(kernel, MappedKernel):
        return {
            "kernel": name,
            "map": describe_feature_map(kernel.feature_map),
            "parts": [describe(kernel.base_kernel, depth + 1)],
        }
    if type(kernel) is not _class_of(name):
        raise ModelFileError(_cannot_save(name))
    if name in _NESTED:
        return {"kernel": name, "parts": [describe(part, depth + 1) for part in kernel.kernels]}
    shape = {
        "ard_num_dims": kernel.ard_num_dims,
        "active_dims": None if kernel.active_dims is None else kernel.active_dims.tolist(),
    }
    tree: dict[str, Any] = {"kernel": name, "arguments": shape, "constraints": _describe_constraints(kernel)}
    if name == "ScaleKernel":
        tree["parts"] = [describe(kernel.base_kernel, depth + 1)]
    elif name in _SHAPED:
        shape[_SHAPED[name]] = getattr(kernel, _SHAPED[name])
    elif name not in _PLAIN:
        raise ModelFileError(_cannot_save(name))
    return tree


def _class_of(name: str) -> Any:
    """A gpytorch kernel, or ours of that name; None where there is none."""
    return SigmoidKernel if name == "SigmoidKernel" else getattr(kernels, name, None)


def _cannot_save(name: str) -> str:
    known = ", ".join([*_PLAIN, *_SHAPED, "ScaleKernel", *sorted(_NESTED)])
    return f"a model with kernel {name} cannot be saved (it works otherwise); kernels that can: {known}."


def _describe_constraints(kernel: Kernel) -> dict[str, dict[str, Any]]:
    return {name: _describe_constraint(name, constraint) for name, constraint in kernel._constraints.items()}


def _describe_constraint(name: str, constraint: constraints.Interval) -> dict[str, Any]:
    kind = type(constraint)
    if kind not in _BOUNDS or not _own_transform(constraint):
        raise ModelFileError(
            f"a kernel with constraint {kind.__name__} on {name} cannot be saved (it works otherwise); constraints "
            f"that can: {', '.join(known.__name__ for known in _BOUNDS)}, with gpytorch's own transform."
        )
    return {"kind": kind.__name__, **{bound: getattr(constraint, bound).tolist() for bound in _BOUNDS[kind]}}


def _own_transform(constraint: constraints.Interval) -> bool:
    """Whether a constraint has the transform of its class, not one that the user gave it."""
    usual, found = inspect.signature(type(constraint)).parameters["transform"].default, constraint._transform
    return found is usual or (isinstance(found, torch.nn.Softplus) and repr(found) == repr(usual))


def parameters(kernel: Kernel) -> dict[str, Tensor]:
    """The raw parameters of a kernel by name, and what else a feature map in it remembers."""
    return {name: value.detach().clone() for name, value in _state(kernel).items()}


def _state(kernel: Kernel) -> dict[str, Tensor]:
    state: dict[str, Tensor] = dict(kernel.named_parameters())
    if isinstance(kernel, MappedKernel):
        state |= {f"feature_map.{name}": value for name, value in kernel.feature_map.named_buffers()}
    return state


def rebuild(tree: Any, values: dict[str, Tensor], dtype: torch.dtype) -> Kernel:
    """The kernel that ``describe`` and ``parameters`` describe."""
    kernel = _exact_near_zero(_build(tree, values).to(dtype))
    own = _state(kernel)
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in values.items()}:
        raise ModelFileError(
            f"the kernel needs the parameters {shorten(sorted(own))}, the file has {shorten(sorted(values))}, or in "
            "another shape."
        )
    for name, parameter in own.items():
        if not bool(torch.isfinite(values[name]).all()):
            raise ModelFileError(f"the kernel's parameter {name} is not finite.")
        parameter.data = values[name].to(parameter.dtype).clone()
    return kernel


def _build(tree: Any, values: dict[str, Tensor], depth: int = 0) -> Kernel:
    """The kernel with arbitrary parameters, none larger than what the file holds for it (it may ask for any)."""
    _check_tree(tree, depth)
    name, trees = tree["kernel"], tree.get("parts", [])
    places = [f"kernels.{number}" for number in range(len(trees))] if name in _NESTED else ["base_kernel"] * len(trees)
    parts = [_build(part, below(place, values), depth + 1) for place, part in zip(places, trees, strict=True)]
    if name in _NESTED:
        return getattr(kernels, name)(*parts)
    if name == "MappedKernel":
        described = _mapping(tree.get("map"), "feature map")
        return MappedKernel(parts[0], rebuild_feature_map(described, below("feature_map", values)).eval())
    kernel = _class_of(name)(*parts, **_arguments(name, tree.get("arguments"), values))
    for parameter, constraint in _constraints(kernel, tree.get("constraints")).items():
        kernel.register_constraint(parameter.removesuffix("_constraint"), constraint)
    return kernel


def below(prefix: str, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values whose names begin with a prefix and a dot, by the rest of their names."""
    return {key.removeprefix(f"{prefix}."): part for key, part in values.items() if key.startswith(f"{prefix}.")}


def _check_tree(tree: Any, depth: int) -> None:
    if not isinstance(tree, dict) or not isinstance(tree.get("parts", []), list):
        raise ModelFileError(f"the file describes a kernel by {tree!r:.60}, expected its name, arguments and parts.")
    name, count = tree.get("kernel"), len(tree.get("parts", []))
    if name not in (*_PLAIN, *_SHAPED, *_NESTED, "ScaleKernel", "MappedKernel"):
        raise ModelFileError(f"the file names an unknown kernel {name!r:.60}.")
    expected = max(1, count) if name in _NESTED else int(name in ("ScaleKernel", "MappedKernel"))
    if depth > _DEEPEST or count != expected:
        raise ModelFileError(
            f"the file nests kernels too deeply, or gives {name} {count} parts: no kernel is like that."
        )


def _arguments(name: str, given: Any, values: dict[str, Tensor]) -> dict[str, Any]:
    """Only what ``describe`` writes, and as large as the parameters of this kernel that the file holds."""
    largest = max((value.numel() for key, value in values.items() if "." not in key), default=0)
    known: dict[str, Callable[[Any], bool]] = {
        "ard_num_dims": lambda count: _is_whole(count) and count >= 1,
        "active_dims": lambda places: isinstance(places, list) and all(_is_whole(place) for place in places),
        "nu": lambda nu: name == "MaternKernel" and nu in _MATERN.values(),
        "power": lambda power: name == "PolynomialKernel" and _is_whole(power) and 1 <= power <= _HIGHEST_POWER,
    }
    wanted = {key: value for key, value in _mapping(given, "arguments").items() if value is not None}
    for key, value in wanted.items():
        if key not in known or not known[key](value):
            raise ModelFileError(f"the file gives {name} the argument {key}={value!r:.60}, which it cannot have.")
    if largest == 0 or wanted.get("ard_num_dims", 1) > largest:
        raise ModelFileError("the file does not hold the parameters that its kernel needs.")
    return wanted


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelFileError(f"the file describes the {what} of a kernel by {value!r:.60}, expected names and values.")
    return value


def _constraints(kernel: Kernel, given: Any) -> dict[str, constraints.Interval]:
    found = {}
    for name, bounds in _mapping(given, "constraints").items():
        if name not in kernel._constraints:
            raise ModelFileError(f"the file constrains {name!r:.60}, which {type(kernel).__name__} does not have.")
        try:
            found[name] = _build_constraint(**bounds)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(f"the file describes {name} by {bounds!r:.60}, which is no constraint.") from error
    return found


def _build_constraint(kind: str, **bounds: Any) -> constraints.Interval:
    known = {constraint.__name__: constraint for constraint in _BOUNDS}
    if set(bounds) != set(_BOUNDS[known[kind]]):
        raise ValueError(f"{kind} needs {_BOUNDS[known[kind]]}")
    made = known[kind](**bounds)
    for name, value in bounds.items():  # gpytorch rounds bounds to torch's default type; the file has them in full
        setattr(made, name, torch.tensor(value, dtype=torch.float64))
    return made


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
