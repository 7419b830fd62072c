"""The constructor's arguments of an estimator as JSON and plain tensors, and back."""

import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bagwise.exceptions import ModelFileError
from bagwise.gp import kernel_files
from bagwise.gp.feature_maps import describe_feature_map, rebuild_feature_map
from bagwise.gp.kernels import Kernel

Tensors = dict[str, Tensor]

_NOT_SAVED = ("callback", "device", "checkpoint")  # belong to the session that fitted the model


def pack_settings(model: Any, tensors: Tensors) -> dict[str, Any]:
    """The constructor's arguments of an estimator; arrays go into ``tensors``."""
    return {
        name: _pack_setting(f"parameter.{name}", value, tensors)
        for name, value in model.get_params(deep=False).items()
        if name not in _NOT_SAVED
    }


def unpack_settings(cls: Any, described: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """The constructor's arguments that ``pack_settings`` took apart."""
    settings = {name: _unpack_setting(f"parameter.{name}", value, tensors) for name, value in described.items()}
    unknown = set(settings) - set(inspect.signature(cls).parameters)
    if unknown:
        raise ModelFileError(f"the file names settings that {cls.__name__} does not have: {sorted(unknown)}.")
    return settings


def _pack_setting(name: str, value: Any, tensors: Tensors) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, np.random.RandomState):
        return None  # a stream of random numbers has no state worth keeping; the model's own seed is saved
    if isinstance(value, Kernel):
        tensors.update({f"{name}.{key}": part for key, part in kernel_files.parameters(value).items()})
        return {"kernel": kernel_files.describe(value)}
    if isinstance(value, torch.nn.Module):
        tensors.update({f"{name}.{key}": part.detach() for key, part in value.state_dict().items()})
        return {"feature_map": describe_feature_map(value)}
    if isinstance(value, Mapping):  # class_weight
        return {"pairs": [[key.item() if isinstance(key, np.generic) else key, float(value[key])] for key in value]}
    tensors[name] = _as_tensor(name, value)
    return {"tensor": name}


def _as_tensor(name: str, value: Any) -> Tensor:
    """A setting that is an array (of any kind that ``fit`` takes)."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return torch.tensor(np.asarray(value))
    except TypeError as error:
        raise ModelFileError(f"the setting {name.removeprefix('parameter.')} cannot be saved ({error}).") from error


def _unpack_setting(name: str, value: Any, tensors: Tensors) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "kernel" in value:
        parts = kernel_files.below(name, tensors)
        return kernel_files.rebuild(value["kernel"], parts, next(iter(parts.values())).dtype)
    if "feature_map" in value:
        parts = kernel_files.below(name, tensors)
        module = rebuild_feature_map(value["feature_map"], parts)
        module.load_state_dict(parts, assign=True)
        return module
    if "pairs" in value:
        return dict(value["pairs"])
    return tensors[value["tensor"]].numpy()
