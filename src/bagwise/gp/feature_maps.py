"""Feature maps: torch modules from rows to features, saved as numbers and a registered name, never as code.

A module can be saved if its class is registered and it carries ``configuration``, the keyword arguments (plain JSON
values) that build another one like it; its weights are saved as tensors.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bagwise.exceptions import BagDataError, ModelFileError

MOST_LAYERS = 1000  # of an MLP
_SPARE = 2**20  # numbers that a module may hold though they are not in the file

_REGISTERED: dict[str, type[nn.Module]] = {}


def register_feature_map(name: str, kind: type[nn.Module]) -> None:
    """Make a class of modules known under a name, so that models that use it can be saved and loaded.

    Loading calls the class with the ``configuration`` that stands in the file, first on torch's device "meta", where
    numbers need no memory: a file that asks for a larger module than it holds the weights of is refused. What else the
    constructor does with a configuration, such as a loop over a number of layers, is for the class to bound.
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise BagDataError(f"register_feature_map: expected a class of torch modules for {name!r}, got {kind!r}.")
    if _REGISTERED.setdefault(name, kind) is not kind:
        raise BagDataError(f"another feature map is already registered as {name!r}; choose another name.")


class MLP(nn.Module):
    """A small fully connected network: rows of ``n_in`` numbers to ``n_out`` features through tanh layers."""

    def __init__(self, n_in: int, hidden: Sequence[int] = (32,), n_out: int = 4, seed: int = 0) -> None:
        super().__init__()
        if len(hidden) > MOST_LAYERS:
            raise BagDataError(f"MLP: {len(hidden)} hidden layers were asked for; there may be {MOST_LAYERS}.")
        self.configuration = {"n_in": n_in, "hidden": list(hidden), "n_out": n_out, "seed": seed}
        sizes = [n_in, *hidden, n_out]
        layers: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for inner, outer in itertools.pairwise(sizes):
                layers += [nn.Linear(inner, outer), nn.Tanh()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_in) to (n, n_out)."""
        features: Tensor = self.layers(x)
        return features


register_feature_map("mlp", MLP)


def describe_feature_map(module: nn.Module) -> dict[str, Any]:
    """The registered name and configuration of a module, as JSON."""
    name = next((name for name, kind in _REGISTERED.items() if type(module) is kind), None)
    configuration = getattr(module, "configuration", None)
    if name is None or not isinstance(configuration, dict):
        raise ModelFileError(
            f"a model with feature map {type(module).__name__} cannot be saved (it works otherwise): register its "
            "class with bagwise.register_feature_map and give it a `configuration` of keyword arguments."
        )
    try:
        configuration = json.loads(json.dumps(configuration, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"a model with feature map {type(module).__name__} cannot be saved (it works otherwise): its "
            f"`configuration` must hold plain numbers, text and lists only ({error})."
        ) from None
    _sizes(name, configuration)
    return {"name": name, "configuration": configuration}


def rebuild_feature_map(description: Any, values: Mapping[str, Tensor]) -> nn.Module:
    """A module like the described one, with the weights ``values`` still to be filled in."""
    name, configuration = description.get("name"), description.get("configuration")
    if not isinstance(name, str) or name not in _REGISTERED:
        raise ModelFileError(
            f"the file needs the feature map {name!r:.60}, which is not registered; call bagwise.register_feature_map "
            "with that name first."
        )
    sizes = _sizes(name, configuration)
    absent = sum(math.prod(size) for part, size in sizes.items() if part not in values)
    held = sum(part.numel() for part in values.values())
    if absent > max(_SPARE, held) or any(tuple(values[part].shape) != sizes[part] for part in sizes if part in values):
        raise ModelFileError(f"the file does not hold the weights that its feature map {name!r} needs.")
    return _REGISTERED[name](**configuration)


def _sizes(name: str, configuration: Any) -> dict[str, tuple[int, ...]]:
    """The shape of everything that a module of this configuration holds, found out without memory for it."""
    try:
        with torch.device("meta"):
            module = _REGISTERED[name](**configuration)
    except Exception as error:  # whatever the class makes of a configuration that is not its own
        raise ModelFileError(
            f"the feature map {name!r} cannot be built from the configuration {configuration!r:.200} on the device "
            f"'meta', which saving and loading need ({error})."
        ) from error
    parts = itertools.chain(module.named_parameters(), module.named_buffers())
    return {part: tuple(value.shape) for part, value in parts}


def check_feature_map(module: Any, rows: Tensor) -> int:
    """The number of features a module makes of some rows; anything but a finite matrix is an error."""
    if not isinstance(module, nn.Module):
        raise BagDataError(f"feature_map={module!r}: expected a torch module (torch.nn.Module) or None.")
    try:
        with torch.no_grad():
            found = module(rows)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise BagDataError(f"feature_map: it does not take {rows.shape[1]} features per instance ({error}).") from error
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(rows) or found.shape[1] == 0:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise BagDataError(
            f"feature_map: expected a matrix with {len(rows)} rows, one for every row it was given, got {shape}."
        )
    if found.dtype != rows.dtype:
        raise BagDataError(f"feature_map: it turns rows of {rows.dtype} into {found.dtype}; it must keep their type.")
    if not bool(torch.isfinite(found).all()):
        raise BagDataError("feature_map: it returns values that are not finite; check its weights and layers.")
    return found.shape[1]
