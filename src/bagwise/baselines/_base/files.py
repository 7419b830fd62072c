"""A fitted baseline as a JSON description and plain tensors, and back. Nothing in a file is executed."""

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from bagwise._validation import feature_names
from bagwise.bags import Bags
from bagwise.baselines._base.machines import Machine
from bagwise.exceptions import ModelFileError
from bagwise.models._base.description import damage_explained
from bagwise.models._base.settings import pack_settings, unpack_settings

Tensors = dict[str, torch.Tensor]


def pack_baseline(model: Any) -> tuple[dict[str, Any], Tensors]:
    """Settings, scaling, class names and machines."""
    tensors: Tensors = {"shift": torch.from_numpy(model.shift_), "scale": torch.from_numpy(model.scale_)}
    names = feature_names(model)
    description = {
        "parameters": pack_settings(model, tensors),
        "classes": (model.classes_[0] if model._several() else model.classes_).tolist(),
        "label_names": None if model.label_names_ is None else list(model.label_names_),
        "feature_names": None if names is None else list(names),
        "machines": [_pack(f"machine.{k}", machine, tensors) for k, machine in enumerate(model.machines_)],
    }
    return description, tensors


def unpack_baseline(cls: Any, description: dict[str, Any], tensors: Tensors) -> Any:
    """The estimator that ``pack_baseline`` took apart, tried on one row."""
    with damage_explained():
        model = cls(**unpack_settings(cls, description["parameters"], tensors))
        model._check_settings()
        model.shift_, model.scale_ = tensors["shift"].numpy(), tensors["scale"].numpy()
        names = description["label_names"]
        model._remember(np.array(description["classes"]), None if names is None else tuple(names))
        model.n_features_in_ = len(model.shift_)
        if description["feature_names"] is not None:
            model.feature_names_in_ = np.array(description["feature_names"], dtype=object)
        model.machines_ = tuple(
            _unpack(f"machine.{k}", part, tensors) for k, part in enumerate(description["machines"])
        )
        _check(model)
    return model


def _pack(place: str, part: Any, tensors: Tensors) -> Any:
    if isinstance(part, Machine):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        packed = {name: _pack(f"{place}.{name}", value, tensors) for name, value in fields.items()}
        return {"kind": type(part).__name__, "fields": packed}
    if isinstance(part, np.ndarray):
        tensors[place] = torch.tensor(part, dtype=torch.float64)
        return {"tensor": place}
    return part


def _unpack(place: str, part: Any, tensors: Tensors) -> Any:
    if not isinstance(part, dict):
        if isinstance(part, float) and not math.isfinite(part):
            raise ModelFileError(f"the model file is damaged: {place} is {part!r}.")
        return part
    if "tensor" in part:
        values = tensors[part["tensor"]].numpy()
        if values.dtype != np.float64 or not np.isfinite(values).all():
            raise ModelFileError(f"the model file is damaged: {place} does not hold finite double precision numbers.")
        return values
    kind = Machine.kinds[part["kind"]]
    return kind(**{name: _unpack(f"{place}.{name}", value, tensors) for name, value in part["fields"].items()})


def _check(model: Any) -> None:
    """Parts that fit together give finite answers about a row."""
    D, names = model.n_features_in_, feature_names(model)
    sound = (
        model.shift_.shape == model.scale_.shape == (D,)
        and np.isfinite(model.shift_).all()
        and bool((model.scale_ > 0).all())
        and len(model.machines_) == model._n_machines()
        and (names is None or len(names) == D)
        and np.isfinite(model.predict_proba(Bags(model.shift_[None, :], [0], feature_names=names))).all()
    )
    if not sound:
        raise ModelFileError("the parts of the model file do not fit together; it is damaged.")
