"""Fitted transformers of rows as JSON and tensors, and back: a few known scikit-learn classes, no pickle."""

import math
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from torch import Tensor

from bagwise._validation import feature_names
from bagwise.bags import Bags
from bagwise.exceptions import ModelFileError
from bagwise.per_instance import PerInstance

# The arrays that a fitted transformer answers with. scikit-learn leaves some of them None or out, by its settings.
_ARRAYS: dict[type, tuple[str, ...]] = {
    StandardScaler: ("mean_", "var_", "scale_"),
    MinMaxScaler: ("min_", "scale_", "data_min_", "data_max_", "data_range_"),
    MaxAbsScaler: ("max_abs_", "scale_"),
    RobustScaler: ("center_", "scale_"),
    Normalizer: (),
    PCA: ("mean_", "components_", "explained_variance_"),
    TruncatedSVD: ("components_", "explained_variance_"),
    VarianceThreshold: ("variances_",),
}
_CLASSES = {kind.__name__: kind for kind in _ARRAYS}


def pack_step(step: PerInstance, place: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The description of a fitted ``PerInstance``; its arrays go into ``tensors``, as ``place.name``."""
    inner = step.transformer_
    if type(inner) not in _ARRAYS:
        raise ModelFileError(
            f"a pipeline with {type(inner).__name__} works, but cannot be saved; what can be saved before a model is "
            f"{', '.join(_CLASSES)}. Transform the bags yourself and save the model alone."
        )
    arrays = {name: getattr(inner, name, None) for name in _ARRAYS[type(inner)]}
    there = {name: value for name, value in arrays.items() if value is not None}
    tensors.update({f"{place}.{name}": torch.from_numpy(np.array(value)) for name, value in there.items()})
    return {
        "class": type(inner).__name__,
        "settings": {name: _plain(name, value) for name, value in inner.get_params(deep=False).items()},
        "arrays": sorted(there),
        "n_features": int(step.n_features_in_),
        "feature_names": _listed(step),
        "sees_names": feature_names(inner) is not None,  # not where the rows are sparse
    }


def unpack_step(described: dict[str, Any], place: str, tensors: dict[str, Tensor]) -> PerInstance:
    """The fitted ``PerInstance`` that ``pack_step`` took apart."""
    kind = _CLASSES.get(str(described["class"]))
    if kind is None or not set(described["arrays"]) <= set(_ARRAYS[kind]):
        raise ModelFileError(f"the pipeline in the file has a step that bagwise does not know: {described!r:.80}.")
    settings = {name: tuple(v) if isinstance(v, list) else v for name, v in described["settings"].items()}
    step, inner = PerInstance(kind(**settings)), kind(**settings)
    for name in described["arrays"]:
        setattr(inner, name, _sound(tensors[f"{place}.{name}"]))
    names, n_features = described["feature_names"], int(described["n_features"])
    _restore_names(step, n_features, names)
    _restore_names(inner, n_features, names if described["sees_names"] is True else None)
    step.transformer_ = inner
    return step


def _restore_names(owner: Any, n_features: int, names: list[str] | None) -> None:
    owner.n_features_in_ = n_features
    if names is not None:
        owner.feature_names_in_ = np.array([str(name) for name in names], dtype=object)


def _listed(step: PerInstance) -> list[str] | None:
    names = feature_names(step)
    return None if names is None else [str(name) for name in names]


def _plain(name: str, value: Any) -> Any:
    """A setting as JSON; what only steered the fit (a random state) is of no use to a fitted transformer."""
    if name == "random_state":
        return None
    if isinstance(value, np.generic):
        value = value.item()
    parts = value if isinstance(value, tuple | list) else [value]
    if not all(part is None or isinstance(part, str | bool | int) or _is_finite(part) for part in parts):
        raise ModelFileError(f"the setting {name}={value!r:.60} of a transformer cannot be saved.")
    return list(parts) if isinstance(value, tuple | list) else value


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _sound(values: Tensor) -> Any:
    if not values.is_floating_point() or not bool(torch.isfinite(values).all()):
        raise ModelFileError("a step of the pipeline holds values that no transformer has; the file is damaged.")
    return values.numpy()


def check_together(steps: list[PerInstance], model: Any) -> None:
    """The rows that come out of the steps must be rows that the model takes."""
    first, names = steps[0], _listed(steps[0])
    dense = names is None or feature_names(first.transformer_) is not None
    rows = (np.zeros if dense else scipy.sparse.csr_array)((1, first.n_features_in_))
    bags = Bags(rows, [0], feature_names=names)
    for step in steps:
        bags = step.transform(bags)
    if bags.n_features != model.n_features_in_:
        raise ModelFileError("the parts of the pipeline do not fit together; the file is damaged.")
