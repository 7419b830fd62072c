"""A fitted estimator as a JSON description and plain tensors, and back."""

import inspect
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bagwise import kernels
from bagwise.exceptions import ModelFileError
from bagwise.feature_maps import describe_feature_map, rebuild_feature_map
from bagwise.features import Features
from bagwise.inference.diagnostics import Chains
from bagwise.inference.loop import Trace
from bagwise.linalg import DEFAULT_JITTER
from bagwise.posterior import GaussianPosterior, SamplePosterior

Tensors = dict[str, Tensor]

_NOT_SAVED = ("callback", "device", "checkpoint")  # belong to the session that fitted the model
_POSTERIORS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "gaussian": (GaussianPosterior, ("mean", "factors", "factor_of")),
    "samples": (SamplePosterior, ("weights", "means", "factors", "factor_of")),
}


def pack(model: Any) -> tuple[dict[str, Any], Tensors]:
    """Everything that makes the fitted model: settings, features, posterior, trace."""
    tensors: Tensors = {}
    description = {
        "parameters": {
            name: _pack_setting(f"parameter.{name}", value, tensors)
            for name, value in model.get_params(deep=False).items()
            if name not in _NOT_SAVED
        },
        "features": _pack_features(model.features_, tensors),
        "traces": {name: _pack_trace(name, getattr(model, name), tensors) for name in model.traces},
        "fitted": _pack_fitted(model),
        "posterior": _pack_posterior(model.posterior_, tensors),
        "chains": _pack_chains(getattr(model, "chains_", None), tensors),
    }
    return description, tensors


def unpack(cls: Any, description: dict[str, Any], tensors: Tensors, device: torch.device) -> Any:
    """The estimator that ``pack`` took apart."""
    try:
        accepted = inspect.signature(cls).parameters
        settings = {
            name: _unpack_setting(f"parameter.{name}", value, tensors)
            for name, value in description["parameters"].items()
        }
        unknown = set(settings) - set(accepted)
        if unknown:
            raise ModelFileError(f"the file names settings that {cls.__name__} does not have: {sorted(unknown)}.")
        model = cls(**settings | {"device": str(device)})
        model.features_ = _unpack_features(description["features"], tensors).to(device)
        model.posterior_ = _unpack_posterior(description.get("posterior", "gaussian"), tensors).to(device)
        for name in cls.traces:
            setattr(model, name, _unpack_trace(name, description["traces"][name], tensors))
        _unpack_fitted(model, description["fitted"])
        _unpack_chains(model, description.get("chains"), tensors)
        _check_shapes(model)
        _check_values(model)
    except ModelFileError:
        raise
    except Exception as error:  # a damaged description can go wrong in any way
        raise ModelFileError(f"the model file is incomplete or damaged ({error!r}).") from error
    return model


# ---------------------------------------------------------------- settings


def _pack_setting(name: str, value: Any, tensors: Tensors) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, np.random.RandomState):
        return None  # a stream of random numbers has no state worth keeping; the model's own seed is saved
    if isinstance(value, kernels.Kernel):
        tensors.update({f"{name}.{key}": part for key, part in kernels.parameters(value).items()})
        return {"kernel": kernels.describe(value)}
    if isinstance(value, torch.nn.Module):
        tensors.update({f"{name}.{key}": part.detach() for key, part in value.state_dict().items()})
        return {"feature_map": describe_feature_map(value)}
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
        parts = _below(name, tensors)
        return kernels.rebuild(value["kernel"], parts, next(iter(parts.values())).dtype)
    if "feature_map" in value:
        module = rebuild_feature_map(value["feature_map"])
        module.load_state_dict(_below(name, tensors), assign=True)
        return module
    return tensors[value["tensor"]].numpy()


def _below(prefix: str, tensors: Tensors) -> Tensors:
    return {key.removeprefix(f"{prefix}."): part for key, part in tensors.items() if key.startswith(f"{prefix}.")}


# ---------------------------------------------------------------- posterior, chains


def _pack_posterior(posterior: Any, tensors: Tensors) -> str:
    kind = next(name for name, (cls, _) in _POSTERIORS.items() if isinstance(posterior, cls))
    tensors.update({f"posterior.{name}": getattr(posterior, name) for name in _POSTERIORS[kind][1]})
    return kind


def _unpack_posterior(kind: str, tensors: Tensors) -> Any:
    cls, names = _POSTERIORS[kind]
    return cls(**{name: tensors[f"posterior.{name}"] for name in names})


def _pack_chains(chains: Chains | None, tensors: Tensors) -> dict[str, Any] | None:
    if chains is None:
        return None
    tensors["chains"] = torch.from_numpy(chains.values)
    return {"names": list(chains.names), "labels": None if chains.labels is None else list(chains.labels)}


def _unpack_chains(model: Any, description: dict[str, Any] | None, tensors: Tensors) -> None:
    if description is None:
        return
    names, labels = tuple(description["names"]), description["labels"]
    values = tensors["chains"].numpy()
    if values.shape[:2] != (model.posterior_.mean.shape[1], len(names)) or values.dtype != np.float64:
        raise ModelFileError("the chains in the model file do not fit its posterior; it is damaged.")
    model.chains_ = Chains(names, values, None if labels is None else tuple(labels))


# ---------------------------------------------------------------- features, trace, fitted attributes


def _pack_features(features: Features, tensors: Tensors) -> dict[str, Any]:
    for name in ("inducing", "lower", "shift", "scale"):
        tensors[f"features.{name}"] = getattr(features, name)
    tensors.update({f"kernel.{key}": part for key, part in kernels.parameters(features.kernel).items()})
    return {
        "kernel": kernels.describe(features.kernel),
        "bias": features.bias,
        "jitter": features.jitter,
        "origin": features.origin,
    }


def _unpack_features(description: dict[str, Any], tensors: Tensors) -> Features:
    inducing = tensors["features.inducing"]
    kernel = kernels.rebuild(description["kernel"], _below("kernel", tensors), inducing.dtype)
    return Features(
        kernel=kernels.check_fits(kernel, inducing.shape[1]),
        inducing=inducing,
        lower=tensors["features.lower"],
        shift=tensors["features.shift"],
        scale=tensors["features.scale"],
        bias=float(description["bias"]),
        jitter=float(description["jitter"]),
        origin=str(description["origin"]),
    )


def _pack_trace(name: str, trace: Trace | None, tensors: Tensors) -> dict[str, Any] | None:
    if trace is None:
        return None
    tensors[f"{name}.values"] = torch.from_numpy(trace.values)
    tensors[f"{name}.residuals"] = torch.from_numpy(trace.residuals)
    return {"name": trace.name, "converged": trace.converged, "interrupted": trace.interrupted}


def _unpack_trace(name: str, description: dict[str, Any] | None, tensors: Tensors) -> Trace | None:
    if description is None:
        return None
    values, residuals = (tensors[f"{name}.{part}"].numpy() for part in ("values", "residuals"))
    return Trace(values=values, residuals=residuals, **description)


def _pack_fitted(model: Any) -> dict[str, Any]:
    several = model.label_names_ is not None
    classes = model.classes_[0] if several else model.classes_
    names = getattr(model, "feature_names_in_", None)
    return {
        "classes": classes.tolist(),
        "label_names": list(model.label_names_) if several else None,
        "feature_names": None if names is None else list(names),
        "n_features": model.n_features_in_,
        "columns": model.columns_,
        "seed": model.seed_,
        "log_evidence": model.log_evidence_.tolist() if hasattr(model.log_evidence_, "tolist") else model.log_evidence_,
        "own": {name: getattr(model, name) for name in model.own_attributes},
    }


def _unpack_fitted(model: Any, fitted: dict[str, Any]) -> None:
    classes, names = np.array(fitted["classes"]), fitted["label_names"]
    model.label_names_ = None if names is None else tuple(names)
    model.classes_ = classes if names is None else np.tile(classes, (len(names), 1))
    evidence = fitted["log_evidence"]
    model.log_evidence_ = evidence if names is None or evidence is None else np.array(evidence)
    model.n_features_in_ = int(fitted["n_features"])
    if fitted["feature_names"] is not None:
        model.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
    model.columns_ = dict(fitted["columns"])
    model.seed_ = int(fitted["seed"])
    for name in model.own_attributes:
        setattr(model, name, fitted["own"][name])


def _check_shapes(model: Any) -> None:
    """The parts of a file must fit together, or answers would be nonsense."""
    features, posterior, names = model.features_, model.posterior_, getattr(model, "feature_names_in_", None)
    R, K = posterior.mean.shape
    D = model.n_features_in_
    fits = (
        features.n_columns == R
        and features.inducing.shape == (features.n_inducing, D)
        and features.shift.shape == features.scale.shape == (D,)
        and features.lower.shape == (features.n_inducing, features.n_inducing)
        and posterior.factors.shape[1:] == (R, R)
        and posterior.factor_of.shape == (K,)
        and (not isinstance(posterior, SamplePosterior) or posterior.weights.shape == posterior.means.shape)
        and 0 <= int(posterior.factor_of.min()) <= int(posterior.factor_of.max()) < len(posterior.factors)
        and len(model.label_names_ or ("",)) == K
        and (names is None or len(names) == D)
    )
    if not fits:
        raise ModelFileError("the parts of the model file do not fit together; it is damaged.")


def _check_values(model: Any) -> None:
    """Numbers of the right kind, all finite, factors that can be divided by, two classes."""
    features, posterior = model.features_, model.posterior_
    classes = model.classes_[0] if model.label_names_ is not None else model.classes_
    drawn = (posterior.weights, posterior.means) if isinstance(posterior, SamplePosterior) else ()
    doubles = (features.shift, features.scale, posterior.mean, posterior.factors, *drawn)
    numbers = (features.inducing, features.lower, *doubles)
    sound = (
        features.inducing.dtype == features.lower.dtype in DEFAULT_JITTER
        and all(part.dtype == torch.float64 for part in doubles)
        and all(bool(torch.isfinite(part).all()) for part in numbers)
        and bool((features.scale > 0).all())
        and bool((features.lower.diagonal() > 0).all())
        and bool((posterior.factors.diagonal(dim1=-2, dim2=-1) > 0).all())
        and features.bias >= 0
        and model.seed_ >= 0
        and classes.shape == (2,)
    )
    if not sound:
        raise ModelFileError("the model file holds values that no model has; it is damaged.")
