"""One cell: build the model, fit it, predict, measure; everything that happened goes into its record."""

import platform
import time
import traceback
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from threadpoolctl import threadpool_limits

from bagwise import baselines
from bagwise.bench.cells import Cell
from bagwise.bench.description import Floats, Measured, Model, Part, Split
from bagwise.bench.store import Record
from bagwise.metrics import MEAN_ROW, bag_report, instance_report, positive_proba
from bagwise.models import discover

PACKAGES = ("bagwise", "gpytorch", "numpy", "scikit-learn", "scipy", "torch")
_COUNTS = ("n", "missing", "positive_share")
_NEEDS_PROBABILITIES = ("log_likelihood", "brier", "calibration_error")
# A cluster may run cells in threads of one process, and two threads that import models at once can meet half-made ones.
_MODELS = {model.__name__: model for model in discover().values()}
_SPLITS_KEPT = 2  # in a process: the cells of a split follow each other


# ---------------------------------------------------------------- a cell


def measure_cell(cell: Cell, folder: Path, device: str = "cpu") -> Record:
    """The record of a cell; a failure of the model is part of it. One thread, whatever the machine has."""
    record: Record = {
        "key": cell.key,
        "table": cell.table.name,
        "set": cell.data.name,
        "model": cell.model.name,
        "repeat": cell.repeat,
        "fold": cell.fold,
        "seed": cell.seed,
        "fingerprint": cell.fingerprint,
        "versions": _versions(),
        "device": device,
        "error": None,
    }
    torch.set_num_threads(1)
    began = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record |= _measured(cell, folder, device)
        except Exception as error:  # whatever it is, it belongs into the table, and the other cells go on
            record["error"] = "".join(traceback.format_exception_only(error)).strip()
    said = sorted({f"{type(w.message).__name__}: {w.message}" for w in caught})
    return record | {"warnings": said, "processor_seconds": time.process_time() - began}


def _measured(cell: Cell, folder: Path, device: str) -> Record:
    split = _prepared(cell.table.rule, cell.place(folder))
    bags, told = split.evidence[cell.model.evidence]
    model = build(cell.model, cell.seed, np.ndim(told) == 2, device)
    started = time.perf_counter()
    model.fit(bags, told)
    fitted = time.perf_counter()
    answers = cell.table.measure(model, split)
    predicted = time.perf_counter()
    found = {
        "metrics": answers.metrics,
        "seconds": {"fit": fitted - started, "predict": predicted - fitted},
        "sizes": {"train": len(bags), "test": sum(len(part.bags) for part in split.parts)},
        "iterations": _iterations(model),
    }
    return found | ({"scores": answers.scores} if cell.table.pooled else {})


@lru_cache(maxsize=_SPLITS_KEPT)
def _prepared(rule: Any, place: Any) -> Split:
    split: Split = rule.split(place)
    return split


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def _iterations(model: Any) -> int | None:
    found = getattr(model, "n_iter_", None)
    return None if found is None else int(np.max(found))


def build(model: Model, seed: int, several: bool = False, device: str = "cpu") -> Any:
    """The estimator of a column; a baseline knows no device, and one without a card takes label columns one by one."""
    settings = {name: value() if callable(value) else value for name, value in model.settings.items()}
    estimator = estimator_class(model.estimator)
    made = (estimator.published if model.published else estimator)(random_state=seed, **settings)
    if several and not hasattr(estimator, "card"):
        return PerColumn(made)
    return made.set_params(device=device) if "device" in made.get_params() else made


def estimator_class(name: str) -> Any:
    """A model of bagwise or one of its baselines."""
    return _MODELS[name] if name in _MODELS else getattr(baselines, name)


class PerColumn(BaseEstimator):
    """One copy of a binary classifier per label column; a column with a single class says nothing (0)."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, bags: Any, y: Any) -> Self:
        """Fit every column that has two classes."""
        columns = np.asarray(y).T
        self.fitted_ = [clone(self.estimator).fit(bags, c) if len(np.unique(c)) == 2 else None for c in columns]
        return self

    def decision_function(self, bags: Any) -> Floats:
        """(B, K) signed distances."""
        scores = [np.zeros(len(bags)) if one is None else one.decision_function(bags) for one in self.fitted_]
        return np.stack(scores, axis=1)


# ---------------------------------------------------------------- what is asked of a fitted model


def binary_answers(model: Any, split: Split) -> Measured:
    """How well bags and instances are told positive from negative, part by part and column by column."""
    metrics: dict[str, dict[str, float]] = {}
    scores: dict[str, dict[str, list[float]]] = {}
    for part in split.parts:
        for level, truth, predict, report in _levels(part):
            if truth is None or not (told := predict(model, part)):
                continue
            p, certain = told
            for row, true, guess in zip(part.rows, _columns(truth), _columns(p), strict=True):
                metrics.setdefault(row, {}).update(_named(level, report(true, guess), certain))
                scores.setdefault(row, {}).update({f"{level} truth": true.tolist(), f"{level} score": guess.tolist()})
    return Measured(metrics, scores)


def _levels(part: Part) -> list[tuple[str, Floats | None, Callable[..., Any], Callable[..., dict[str, Any]]]]:
    return [
        ("bag", part.bag_truth, _bag_probability, bag_report),
        ("instance", part.instance_truth, _instance_probability, instance_report),
    ]


def _bag_probability(model: Any, part: Part) -> tuple[Floats, bool]:
    """Probabilities, and whether they are any: of a mere decision function only order and sign count."""
    if hasattr(model, "predict_proba"):
        return positive_proba(model.predict_proba(part.bags), model.classes_), True
    return expit(model.decision_function(part.bags)), False


def _instance_probability(model: Any, part: Part) -> tuple[Floats, bool] | None:
    if not hasattr(model, "predict_instance_proba"):
        return None
    return positive_proba(model.predict_instance_proba(part.bags), model.classes_), True


def _named(level: str, report: dict[str, float], certain: bool) -> dict[str, float]:
    left_out = _COUNTS if certain else (*_COUNTS, *_NEEDS_PROBABILITIES)
    return {f"{level} {name}": float(value) for name, value in report.items() if name not in left_out}


def _columns(values: Floats) -> Floats:
    table = np.asarray(values, dtype=float)
    return table[None, :] if table.ndim == 1 else table.T


def class_answers(model: Any, split: Split) -> Measured:
    """How well classes are told: of new bags, of training bags among their candidates, and of instances."""
    (part,) = split.parts
    assert part.bag_truth is not None
    several = model.predict_proba if hasattr(model, "predict_proba") else model.decision_function
    found = {"bag accuracy": float(np.mean(np.argmax(several(part.bags), axis=1) == part.bag_truth))}
    if split.training is not None:
        told = split.evidence["candidates"][1]
        best = np.where(told, several(split.training.bags), -np.inf).argmax(axis=1)
        found["candidate accuracy"] = float(np.mean(best == split.training.bag_truth))
    if hasattr(model, "predict_instance_proba") and part.instance_truth is not None:
        found |= instance_class_measures(part.instance_truth, model.predict_instance_proba(part.bags))
    return Measured({part.rows[0]: found}, {})


def instance_class_measures(truth: Floats, table: Floats) -> dict[str, float]:
    """Classes of instances: right or not, how many of those that have a class are found, and how they are ranked.

    ``truth`` are numbers of classes, the number of classes for "none of them", NaN where unknown. A model that has no
    column for "none of them" can only rank. Ranks are those within a class, averaged over classes.
    """
    known, largest = ~np.isnan(truth), int(np.nanmax(truth))
    q = table.shape[1] - 1 if table.shape[1] > largest else table.shape[1]
    shown = np.where(known[:, None], truth[:, None] == np.arange(q), np.nan)
    ranked = instance_report(shown, np.clip(table[:, :q], 0.0, 1.0), [str(k) for k in range(q)])[MEAN_ROW]
    found = {f"instance {name}": ranked[name] for name in ("average_precision", "recall_at_precision_90")}
    if q < table.shape[1]:
        right = np.argmax(table, axis=1) == truth
        found["instance accuracy"] = float(np.mean(right[known]))
        found["instances found"] = float(np.mean(right[truth < q]))
    return found


def lengthscale_answers(model: Any, split: Split) -> Measured:
    """The lengthscale that was learned."""
    kernel = model.features_.kernel
    found = getattr(kernel, "base_kernel", kernel).lengthscale.detach().item()
    return Measured({split.parts[0].rows[0]: {"lengthscale": found}}, {})
