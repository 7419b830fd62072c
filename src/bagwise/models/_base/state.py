"""A fitted estimator as a JSON description and plain tensors, and back."""

import inspect
import math
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bagwise.bag_models.rules import AtLeastOne, OneClassInBag, SoftMax, StrongestInstance, Witness, rule_from
from bagwise.bags import Bags
from bagwise.exceptions import ModelFileError
from bagwise.gp import kernels
from bagwise.gp.effects import GroupEffect
from bagwise.gp.feature_maps import describe_feature_map, rebuild_feature_map
from bagwise.gp.features import Features, farthest
from bagwise.gp.posterior import ExactPosterior, GaussianPosterior, Posterior, SamplePosterior, SparseSamplePosterior
from bagwise.inference.candidates.exact import exact_moments
from bagwise.inference.chains.diagnostics import Chains
from bagwise.inference.loop import Trace
from bagwise.models._base.description import check_description
from bagwise.numerics.linalg import DEFAULT_JITTER
from bagwise.numerics.links import LINKS

Tensors = dict[str, Tensor]

_NOT_SAVED = ("callback", "device", "checkpoint")  # belong to the session that fitted the model
_POSTERIORS: dict[str, type[Any]] = {
    "gaussian": GaussianPosterior,
    "samples": SamplePosterior,
    "sparse samples": SparseSamplePosterior,
    "exact": ExactPosterior,
}
_WHOLE_NUMBERS = ("factor_of", "columns")  # of a posterior; everything else is in double precision …
_ROWS = ("inputs",)  # … but rows that it remembers, which are of the type of the features
_LARGEST_BUILT = 2**26  # numbers: 512 MB
_PROBED = 8  # rows that a loaded model is tried on


def pack(model: Any) -> tuple[dict[str, Any], Tensors]:
    """Everything that makes the fitted model: settings, features, posterior, trace."""
    tensors: Tensors = {}
    description = {
        "parameters": pack_settings(model, tensors),
        "features": _pack_features(model.features_, tensors),
        "traces": {name: _pack_trace(name, getattr(model, name), tensors) for name in model.traces},
        "fitted": _pack_fitted(model),
        "posterior": _pack_posterior(model.posterior_, tensors),
        "link": model.posterior_.link.name,
        "rule": model.rule_.describe(),
        "chains": _pack_chains(getattr(model, "chains_", None), tensors),
    }
    return description, tensors


def unpack(cls: Any, description: dict[str, Any], tensors: Tensors, device: torch.device) -> Any:
    """The estimator that ``pack`` took apart."""
    check_description(description, _POSTERIORS, cls.traces)
    try:
        settings = unpack_settings(cls, description["parameters"], tensors)
        if "rule" not in description and "leftovers" in inspect.signature(cls).parameters:
            settings["leftovers"] = "independent"  # what there was before rules, as in _rule_before_rules
        model = cls(**settings | {"device": str(device)})
        model._check_settings()
        model.features_ = _unpack_features(description["features"], tensors).to(device)
        model.posterior_ = _unpack_posterior(description, tensors).to(device)
        model.rule_ = rule_from(description["rule"] if "rule" in description else _rule_before_rules(description))
        for name in cls.traces:
            setattr(model, name, _unpack_trace(name, description["traces"][name], tensors))
        _unpack_fitted(model, description["fitted"])
        _unpack_chains(model, description.get("chains"), tensors)
        _check_shapes(model)
        _check_values(model)
        _check_answers(model)
    except ModelFileError:
        raise
    except Exception as error:  # a damaged description can go wrong in any way
        raise ModelFileError(f"the model file is incomplete or damaged ({error!r}).") from error
    return model


# ---------------------------------------------------------------- settings


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
        parts = kernels.below(name, tensors)
        return kernels.rebuild(value["kernel"], parts, next(iter(parts.values())).dtype)
    if "feature_map" in value:
        parts = kernels.below(name, tensors)
        module = rebuild_feature_map(value["feature_map"], parts)
        module.load_state_dict(parts, assign=True)
        return module
    return tensors[value["tensor"]].numpy()


# ---------------------------------------------------------------- posterior, chains


def _pack_posterior(posterior: Any, tensors: Tensors) -> str:
    kind = _kind(posterior)
    parts = {name: getattr(posterior, name) for name in posterior.ARRAYS}
    _check_built(parts, "this model cannot be saved: it has")
    tensors.update({f"posterior.{name}": part for name, part in parts.items()})
    return kind


def _check_built(parts: Tensors, whose: str) -> None:
    """Bound what a posterior makes of its tensors: weights of every draw with all their zeros, covariances."""
    if "columns" in parts:
        size = math.prod(parts["columns"].shape[:-1]) * len(parts["mean"])
    else:
        size = parts["means"].shape[0] * parts["means"].shape[-1] ** 2 if "means" in parts else 0
    if size > max(_LARGEST_BUILT, sum(part.numel() for part in parts.values())):
        raise ModelFileError(
            f"{whose} draws of {size:,} numbers in all, where {_LARGEST_BUILT:,} are the most; use fewer centres, or "
            "keep fewer draws (thin)."
        )


def _kind(posterior: Any) -> str:
    return next(name for name, cls in _POSTERIORS.items() if isinstance(posterior, cls))


def _unpack_posterior(description: dict[str, Any], tensors: Tensors) -> Any:
    cls = _POSTERIORS[description["posterior"]]
    arrays = {name: tensors[f"posterior.{name}"] for name in cls.ARRAYS}
    _check_built(arrays, "the model file asks for")
    return cls(**arrays, link=LINKS[description["link"]]) if cls is GaussianPosterior else cls(**arrays)


def _rule_before_rules(description: dict[str, Any]) -> dict[str, Any]:
    """The rule of a model whose file was written when rules followed from the settings (schema 1)."""
    settings, model = description["parameters"], description["model"]
    if model == "miplgp":
        kind = OneClassInBag if settings["disambiguation"] == "consistent" else StrongestInstance
        return kind(settings["augment"]).describe()
    if model != "gpmil":
        return AtLeastOne(shares=False).describe()
    if settings["approximation"] == "softmax":
        return SoftMax(settings["pooling"], float(settings["sharpness"]), shares=False).describe()
    sharpness = None if settings["witnesses"] == "hard" else 0.1 * 10.0 ** (settings["n_stages"] - 1)
    return Witness(sharpness, shares=False).describe()


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
    tensors.update({f"features.{name}": value for name, value in features.tensors().items()})
    tensors.update({f"kernel.{key}": part for key, part in kernels.parameters(features.kernel).items()})
    return {
        "kernel": kernels.describe(features.kernel),
        "whitened": features.lower is not None,
        "bias": features.bias,
        "jitter": features.jitter,
        "origin": features.origin,
        "size_range": None if features.size_range is None else list(features.size_range),
        "effect": [list(part) for part in features.effect],
    }


def _unpack_features(description: dict[str, Any], tensors: Tensors) -> Features:
    inducing = tensors["features.inducing"]
    kernel = kernels.rebuild(description["kernel"], kernels.below("kernel", tensors), inducing.dtype)
    return Features(
        kernel=kernels.check_fits(kernel, inducing.shape[1]),
        inducing=inducing,
        lower=tensors["features.lower"] if description.get("whitened", True) else None,
        shift=tensors["features.shift"],
        scale=tensors["features.scale"],
        bias=float(description["bias"]),
        jitter=float(description["jitter"]),
        origin=str(description["origin"]),
        size_range=_size_range(description.get("size_range")),
        projection=tensors.get("features.projection"),
        effect=_effect(description.get("effect", 0.0)),
    )


def _effect(given: Any) -> GroupEffect:
    """Sizes, shares and weights; files of the first version have one size, common to the bag."""
    if isinstance(given, int | float):
        given = [[given], [0.0], [1.0]] if given else [[], [], []]
    lengths = {len(part) for part in given}
    within = len(given) == 3 and all(
        0.0 <= value <= most for part, most in zip(given, (1e6, 1.0, 1.0), strict=True) for value in part
    )
    if not within or len(lengths) != 1:
        raise ModelFileError(f"the effect of a bag cannot be of the size {given!r}; the file is damaged.")
    return GroupEffect(*(tuple(map(float, part)) for part in given))


def _size_range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    low, high = (float(end) for end in given)
    if not 0.0 <= low <= high < 64.0:
        raise ModelFileError(f"the sizes of the training bags cannot have been {given!r}; the file is damaged.")
    return low, high


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
    if values.ndim != 1 or values.shape != residuals.shape or not values.dtype == residuals.dtype == np.float64:
        raise ModelFileError(f"the model file holds no course of an iteration in {name}; it is damaged.")
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
        "seed": model.seed_,
        "sizes_seen": list(model.sizes_seen_),
        "learned_from_known": model.learned_from_known_,
        "log_evidence": model.log_evidence_.tolist() if hasattr(model.log_evidence_, "tolist") else model.log_evidence_,
        "own": {name: getattr(model, name) for name in model.own_attributes},
    }


def _unpack_fitted(model: Any, fitted: dict[str, Any]) -> None:
    classes, names = np.array(fitted["classes"]), fitted["label_names"]
    if names is not None and len(classes) != 2:
        raise ModelFileError("the model file has several labels, but not two classes; it is damaged.")
    model.label_names_ = None if names is None else tuple(names)
    model.classes_ = classes if names is None else np.tile(classes, (len(names), 1))
    log_evidence = fitted["log_evidence"]
    model.log_evidence_ = log_evidence if names is None or log_evidence is None else np.array(log_evidence)
    model.n_features_in_ = int(fitted["n_features"])
    if fitted["feature_names"] is not None:
        model.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
    model.seed_ = int(fitted["seed"])
    smallest, largest = fitted.get("sizes_seen", (1, sys.maxsize))  # schema 1 does not tell
    model.sizes_seen_ = int(smallest), int(largest)
    model.learned_from_known_ = bool(fitted.get("learned_from_known", (fitted.get("columns") or {}).get("known")))
    for name in model.own_attributes:
        absent = getattr(model, name.removesuffix("_"), None)  # files of schema 1 lack some of them
        setattr(model, name, fitted["own"].get(name, absent))


def _check_shapes(model: Any) -> None:
    """The parts of a file must fit together, or answers would be nonsense."""
    features, posterior, names = model.features_, model.posterior_, getattr(model, "feature_names_in_", None)
    R, K = posterior.mean.shape
    D, width = model.n_features_in_, features.inducing.shape[1]
    fits = (
        features.n_columns == R
        and features.inducing.shape == (features.n_inducing, D if features.projection is None else width)
        and (features.projection is None or features.projection.shape == (D, width))
        and features.shift.shape == features.scale.shape == (D,)
        and (features.lower is None or features.lower.shape == (features.n_inducing, features.n_inducing))
        and _posterior_fits(posterior, R, K)
        and model._n_functions() == K
        and (names is None or len(names) == D)
    )
    if not fits:
        raise ModelFileError("the parts of the model file do not fit together; it is damaged.")


def _posterior_fits(posterior: Posterior | ExactPosterior, R: int, K: int) -> bool:
    if isinstance(posterior, SparseSamplePosterior):
        columns = posterior.columns
        return (
            columns.shape == posterior.values.shape
            and columns.ndim == 4
            and len(columns) == K
            and columns.dtype == torch.int64
            and 0 <= int(columns.min()) <= int(columns.max()) < R
        )
    if isinstance(posterior, ExactPosterior) and not _exact_fits(posterior, K):
        return False
    return (
        posterior.factors.shape[1:] == (R, R)
        and posterior.factor_of.shape == (K,)
        and (not isinstance(posterior, SamplePosterior) or posterior.weights.shape == posterior.means.shape)
        and 0 <= int(posterior.factor_of.min()) <= int(posterior.factor_of.max()) < len(posterior.factors)
    )


def _exact_fits(posterior: ExactPosterior, K: int) -> bool:
    rows, noise = posterior.inputs, posterior.noise
    return rows.ndim == 2 and posterior.weights.shape == noise.shape == (len(rows), K) and bool((noise > 0).all())


def _check_values(model: Any) -> None:
    """Numbers of the right kind, all finite, factors that can be divided by, two classes."""
    features, posterior = model.features_, model.posterior_
    parts = {name: getattr(posterior, name) for name in posterior.ARRAYS}
    own = [part for name, part in parts.items() if name not in (*_WHOLE_NUMBERS, *_ROWS)]
    projection = () if features.projection is None else (features.projection,)
    doubles = (features.shift, features.scale, *projection, posterior.mean, *own)
    singles = [features.inducing] if features.lower is None else [features.inducing, features.lower]
    singles += [part for name, part in parts.items() if name in _ROWS]
    diagonals = [part.diagonal(dim1=-2, dim2=-1) for part in _factors(features, posterior)]
    sound = (
        features.inducing.dtype in DEFAULT_JITTER
        and all(part.dtype == features.inducing.dtype for part in singles)
        and all(part.dtype == torch.float64 for part in doubles)
        and all(bool(torch.isfinite(part).all()) for part in (*singles, *doubles))
        and bool((features.scale > 0).all())
        and bool((features.shift.abs() / features.scale < farthest(features.dtype)).all())
        and all(bool((part.abs() < farthest(part.dtype)).all()) for part in singles)
        and all(bool((part > 0).all()) for part in diagonals)
        and features.bias >= 0
        and model.seed_ >= 0
        and model._has_sound_classes()
    )
    if not sound:
        raise ModelFileError("the model file holds values that no model has; it is damaged.")


def _check_answers(model: Any) -> None:
    """What the model says of its own inducing inputs; from sound numbers follow finite answers."""
    features = model.features_
    seen = features.inducing[:_PROBED].double()
    own = seen if features.projection is None else seen @ features.projection.T
    rows = (own * features.scale + features.shift).cpu().numpy()
    bags = Bags(rows, np.zeros(len(rows)), feature_names=getattr(model, "feature_names_in_", None))
    if isinstance(model.posterior_, ExactPosterior):  # solves that take as long as the fit are left out
        answers = [part.cpu().numpy() for part in exact_moments(features, model.posterior_, bags, 0)]
    else:
        answers = [*model.predict_latent(bags), model.predict_instance_proba(bags)]
    if not all(np.isfinite(part).all() for part in answers):
        raise ModelFileError("the model file holds values that no model has: its answers are not finite.")


def _factors(features: Features, posterior: Posterior) -> list[Tensor]:
    """The triangular factors, whose diagonals must be positive."""
    own = [] if isinstance(posterior, SparseSamplePosterior) else [posterior.factors]
    return own if features.lower is None else [features.lower, *own]
