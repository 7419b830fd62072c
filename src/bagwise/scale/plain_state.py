"""What chunks remember, as tensors and plain JSON and back: no code is stored, none is executed."""

import dataclasses
import importlib
from typing import Any

import torch
from torch import Tensor

from bagwise.exceptions import ModelFileError
from bagwise.numerics.segments import Segments

Tensors = dict[str, Tensor]


def encode(value: Any, tensors: Tensors) -> Any:
    """A value made of tensors, numbers, tuples, lists and bagwise's own plain classes; tensors go into ``tensors``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensors[str(len(tensors))] = value.detach().clone(memory_format=torch.contiguous_format)  # some share memory
        return {"tensor": str(len(tensors) - 1)}
    if isinstance(value, Segments):
        return {"segments": encode(value.offsets, tensors)}
    if hasattr(value, "_fields"):
        return {"class": _name(value), "parts": [encode(part, tensors) for part in value]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [encode(part, tensors) for part in value]}
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return {"class": _name(value), "parts": [encode(part, tensors) for part in parts]}
    raise ModelFileError(f"a checkpoint cannot hold a {type(value).__name__}; fit without one.")


def decode(plain: Any, tensors: Tensors) -> Any:
    """What ``encode`` took apart."""
    if not isinstance(plain, dict):
        return plain
    if "tensor" in plain:
        return tensors[plain["tensor"]].clone(memory_format=torch.contiguous_format)
    if "segments" in plain:
        return Segments(decode(plain["segments"], tensors))
    parts = next(plain[kind] for kind in ("parts", "tuple", "list") if kind in plain)
    values = [decode(part, tensors) for part in parts]
    if "class" in plain:
        return _class(plain["class"])(*values)
    return tuple(values) if "tuple" in plain else values


def _name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _class(name: str) -> Any:
    """A class of bagwise that holds values and does nothing else."""
    module, _, qualified = name.partition(":")
    found = getattr(importlib.import_module(module), qualified, None) if module.startswith("bagwise.") else None
    if not isinstance(found, type) or not (hasattr(found, "_fields") or dataclasses.is_dataclass(found)):
        raise ModelFileError(f"a checkpoint names {name!r:.80}, which is no plain class of bagwise.")
    return found
