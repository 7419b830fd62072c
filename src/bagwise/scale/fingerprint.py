"""Fingerprints of what a step is asked: the same question, of the same bags, has the same answer."""

import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np
from torch import Tensor


def fingerprint(*values: Any) -> str:
    """A name for some values: tensors, numbers, text, functions, and objects of these."""
    digest = hashlib.sha256()
    for value in values:
        _add(digest, value)
    return digest.hexdigest()[:16]


def _add(digest: Any, value: Any) -> None:
    digest.update(type(value).__qualname__.encode())
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, bool | int | float | str | np.generic):
        digest.update(repr(value).encode())
    elif isinstance(value, tuple | list):
        _add_all(digest, value)
    elif isinstance(value, dict):
        _add_all(digest, sorted(value.items()))
    elif dataclasses.is_dataclass(value):
        _add_all(digest, [getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, functools.partial):
        _add_all(digest, [value.func, value.args, value.keywords])
    elif callable(value) and hasattr(value, "__qualname__"):
        digest.update(value.__qualname__.encode())
        _add_all(digest, [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()])
    else:
        _add(digest, vars(value))


def _add_all(digest: Any, values: Any) -> None:
    digest.update(str(len(values)).encode())
    for value in values:
        _add(digest, value)
