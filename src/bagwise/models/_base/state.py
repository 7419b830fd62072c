"""A fitted estimator as a JSON description and plain tensors, and back."""

import inspect
import math
import sys
from typing import Any

import numpy as np
import torch

from bagwise._validation import feature_names
from bagwise.bag_models.rules import AtLeastOne, OneClassInBag, SoftMax, StrongestInstance, Witness, rule_from
from bagwise.exceptions import ModelFileError
from bagwise.gp import kernel_files, kernels
from bagwise.gp.effects import GroupEffect
from bagwise.gp.features import Features
from bagwise.gp.posterior import ExactPosterior, GaussianPosterior, SamplePosterior, SparseSamplePosterior
from bagwise.inference.chains.diagnostics import Chains
from bagwise.inference.loop import Trace
from bagwise.models._base.description import check_description, damage_explained
from bagwise.models._base.settings import Tensors, pack_settings, unpack_settings
from bagwise.models._base.soundness import check_model
from bagwise.numerics.links import LINKS

_POSTERIORS: dict[str, type[Any]] = {
    "gaussian": GaussianPosterior,
    "samples": SamplePosterior,
    "sparse samples": SparseSamplePosterior,
    "exact": ExactPosterior,
}
_LARGEST_BUILT = 2**26  # numbers: 512 MB


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
        "chains": _pack_chains(model.fit_record().chains, tensors),
    }
    return description, tensors


def unpack(cls: Any, description: dict[str, Any], tensors: Tensors, device: torch.device) -> Any:
    """The estimator that ``pack`` took apart."""
    check_description(description, _POSTERIORS, cls.traces)
    with damage_explained():
        settings = unpack_settings(cls, description["parameters"], tensors)
        if "rule" not in description and _may_share(cls):
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
        check_model(model)
    return model


def _may_share(cls: Any) -> bool:
    """Whether it is a setting of a model that its instances share what the features leave over."""
    setting = inspect.signature(cls).parameters.get("leftovers")
    return setting is not None and setting.default == "shared"


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
    tensors.update({f"kernel.{key}": part for key, part in kernel_files.parameters(features.kernel).items()})
    return {
        "kernel": kernel_files.describe(features.kernel),
        "whitened": features.lower is not None,
        "bias": features.bias,
        "jitter": features.jitter,
        "origin": features.origin,
        "size_range": None if features.size_range is None else list(features.size_range),
        "stretched": features.stretched,
        "leftovers": features.leftovers,
        "effect": [list(part) for part in features.effect[:3]],
        "effect_of_groups": _of_groups(features.effect),
    }


def _unpack_features(description: dict[str, Any], tensors: Tensors) -> Features:
    inducing = tensors["features.inducing"]
    kernel = kernel_files.rebuild(description["kernel"], kernel_files.below("kernel", tensors), inducing.dtype)
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
        stretched=bool(description.get("stretched", False)),
        leftovers=bool(description.get("leftovers", True)),
        effect=_effect(description.get("effect", 0.0), description.get("effect_of_groups")),
    )


def _of_groups(effect: GroupEffect) -> dict[str, list[Any]] | None:
    """Where groups have effects of their own size: their columns, and their factors."""
    return {"columns": list(effect.columns), "factors": [list(f) for f in effect.factors]} if effect.columns else None


def _effect(given: Any, groups: dict[str, list[Any]] | None) -> GroupEffect:
    """Sizes, shares and weights, and those of groups; files of the first version have one size, common to the bag."""
    if isinstance(given, int | float):
        given = [[given], [0.0], [1.0]] if given else [[], [], []]
    lengths = {len(part) for part in given}
    within = len(given) == 3 and all(
        0.0 <= value <= most for part, most in zip(given, (1e6, 1.0, 1.0), strict=True) for value in part
    )
    if not within or len(lengths) != 1:
        raise ModelFileError(f"the effect of a bag cannot be of the size {given!r}; the file is damaged.")
    sizes, shares, weights = (tuple(map(float, part)) for part in given)
    whole = GroupEffect(sizes, shares, weights)
    return whole if groups is None else _with_groups(whole, groups)


def _with_groups(effect: GroupEffect, groups: dict[str, list[Any]]) -> GroupEffect:
    columns, factors = groups["columns"], groups["factors"]
    sound = len(columns) == len(factors) and all(len(factor) == len(effect.sizes) for factor in factors)
    if not sound or not all(0.0 <= value <= 1e3 for factor in factors for value in factor):
        raise ModelFileError("the sizes of the effects of groups do not fit together; the file is damaged.")
    return effect._replace(columns=tuple(columns), factors=tuple(tuple(map(float, part)) for part in factors))


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
    if trace.gains:
        tensors[f"{name}.gains"] = torch.tensor(trace.gains, dtype=torch.float64)
    return {"name": trace.name, "converged": trace.converged, "interrupted": trace.interrupted}


def _unpack_trace(name: str, description: dict[str, Any] | None, tensors: Tensors) -> Trace | None:
    if description is None:
        return None
    values, residuals = (tensors[f"{name}.{part}"].numpy() for part in ("values", "residuals"))
    if values.ndim != 1 or values.shape != residuals.shape or not values.dtype == residuals.dtype == np.float64:
        raise ModelFileError(f"the model file holds no course of an iteration in {name}; it is damaged.")
    gains = tensors.get(f"{name}.gains", torch.zeros(0, dtype=torch.float64))
    if gains.ndim != 1 or gains.dtype != torch.float64:
        raise ModelFileError(f"the model file does not tell what the starts of {name} gained; it is damaged.")
    return Trace(values=values, residuals=residuals, gains=tuple(gains.tolist()), **description)


def _pack_fitted(model: Any) -> dict[str, Any]:
    several, evidence = model.label_names_ is not None, model.log_evidence_
    classes = model.classes_[0] if several else model.classes_
    names = feature_names(model)
    return {
        "classes": classes.tolist(),
        "label_names": list(model.label_names_) if several else None,
        "feature_names": None if names is None else list(names),
        "n_features": model.n_features_in_,
        "seed": model.seed_,
        "sizes_seen": list(model.sizes_seen_),
        "learned_from_known": model.learned_from_known_,
        "log_evidence": evidence.tolist() if isinstance(evidence, np.ndarray) else evidence,
        "threads": model.threads_,
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
    settings = model.get_params(deep=False)
    threads = fitted.get("threads")
    model.threads_ = None if threads is None else int(threads)
    for name in model.own_attributes:
        absent = settings.get(name.removesuffix("_"))  # files of schema 1 lack some of them
        setattr(model, name, fitted["own"].get(name, absent))
