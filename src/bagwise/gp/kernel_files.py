"""Kernels in model files, by a small grammar.

A kernel is the name of a known class, the arguments that shape it, the constraints of its parameters, its parts, and
its parameters as plain tensors.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bagwise._validation import is_whole, shorten
from bagwise.exceptions import ModelFileError
from bagwise.gp.feature_maps import describe_feature_map, rebuild_feature_map
from bagwise.gp.kernels import MATERN, Kernel, MappedKernel, SigmoidKernel, constraints, exact_near_zero, kernels

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
    kernel = exact_near_zero(_build(tree, values).to(dtype))
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
        "ard_num_dims": lambda count: is_whole(count) and count >= 1,
        "active_dims": lambda places: (
            isinstance(places, list) and all(is_whole(place) and place >= 0 for place in places)
        ),
        "nu": lambda nu: name == "MaternKernel" and nu in MATERN.values(),
        "power": lambda power: name == "PolynomialKernel" and is_whole(power) and 1 <= power <= _HIGHEST_POWER,
    }
    wanted = {key: value for key, value in _mapping(given, "arguments").items() if value is not None}
    for key, value in wanted.items():
        if key not in known or not known[key](value):
            raise ModelFileError(f"the file gives {name} the argument {key}={value!r:.60}, which it cannot have.")
    if largest == 0 or wanted.get("ard_num_dims", 1) > largest:
        raise ModelFileError("the file does not hold the parameters that its kernel needs.")
    return wanted


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
