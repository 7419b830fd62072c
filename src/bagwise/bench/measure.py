"""One cell: build the model, fit it, predict, measure; everything that happened goes into its record."""

import platform
import time
import traceback
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from bagwise import baselines
from bagwise.bench.cells import Cell
from bagwise.bench.description import Floats, Measured, Model, Part, Split
from bagwise.bench.store import Record
from bagwise.metrics import MEAN_ROW, bag_report, instance_report, positive_proba
from bagwise.models import discover

PACKAGES = ("bagwise", "gpytorch", "numpy", "scikit-learn", "scipy", "torch")
_COUNTS = ("n", "missing", "positive_share")
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
    warned = sorted({f"{type(w.message).__name__}: {w.message}" for w in caught})
    return record | {"warnings": warned, "processor_seconds": time.process_time() - began}


def _measured(cell: Cell, folder: Path, device: str) -> Record:
    split = _prepared(cell.table.rule, cell.place(folder))
    bags, stated = split.evidence[cell.model.evidence]
    model = build(cell.model, cell.seed, device)
    started = time.perf_counter()
    model.fit(bags, stated)
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
    trace = model.fit_record().trace
    return None if trace is None else len(trace)


def build(model: Model, seed: int, device: str = "cpu") -> Any:
    """The estimator of a column; a baseline knows no device."""
    settings = {name: value() if callable(value) else value for name, value in model.settings.items()}
    estimator = estimator_class(model.estimator)
    made = (estimator.published if model.published else estimator)(random_state=seed, **settings)
    return made.set_params(device=device) if "device" in made.get_params() else made


def estimator_class(name: str) -> Any:
    """A model of bagwise or one of its baselines."""
    return _MODELS[name] if name in _MODELS else getattr(baselines, name)


# ---------------------------------------------------------------- what is asked of a fitted model


def binary_answers(model: Any, split: Split) -> Measured:
    """How well positive bags and instances are told from negative ones, part by part and column by column."""
    metrics: dict[str, dict[str, float]] = {}
    scores: dict[str, dict[str, list[float]]] = {}
    for part in split.parts:
        for level, truth, predict, report in _levels(part):
            if truth is None:
                continue
            p = predict(model, part)
            for row, true, guess in zip(part.rows, _columns(truth), _columns(p), strict=True):
                metrics.setdefault(row, {}).update(_named(level, report(true, guess)))
                scores.setdefault(row, {}).update({f"{level} truth": true.tolist(), f"{level} score": guess.tolist()})
        _add_calls(model, part, metrics, scores)
    return Measured(metrics, scores)


def _add_calls(
    model: Any, part: Part, metrics: dict[str, dict[str, float]], scores: dict[str, dict[str, list[float]]]
) -> None:
    """The accuracy of a model whose decisions do not follow from its probabilities."""
    if part.bag_truth is None or not model.decides_by_mode:
        return
    called = np.asarray(model.predict(part.bags) if model._several() else model.predict(part.bags) == model.classes_[1])
    for row, true, call in zip(part.rows, _columns(part.bag_truth), _columns(called), strict=True):
        metrics[row]["bag accuracy"] = float(np.mean((call == true)[~np.isnan(true)]))
        scores[row]["bag called"] = call.tolist()


def _levels(part: Part) -> list[tuple[str, Floats | None, Callable[..., Any], Callable[..., dict[str, Any]]]]:
    return [
        ("bag", part.bag_truth, _bag_probability, bag_report),
        ("instance", part.instance_truth, _instance_probability, instance_report),
    ]


def _bag_probability(model: Any, part: Part) -> Floats:
    return positive_proba(model.predict_proba(part.bags), model.classes_)


def _instance_probability(model: Any, part: Part) -> Floats:
    return positive_proba(model.predict_instance_proba(part.bags), model.classes_)


def _named(level: str, report: dict[str, float]) -> dict[str, float]:
    return {f"{level} {name}": float(value) for name, value in report.items() if name not in _COUNTS}


def _columns(values: Floats) -> Floats:
    table = np.asarray(values, dtype=float)
    return table[None, :] if table.ndim == 1 else table.T


def class_answers(model: Any, split: Split) -> Measured:
    """How well classes are found: of new bags, of training bags among their candidates, and of instances."""
    (part,) = split.parts
    assert part.bag_truth is not None
    found = {"bag accuracy": float(np.mean(np.argmax(model.predict_proba(part.bags), axis=1) == part.bag_truth))}
    if split.training is not None:
        candidates = split.evidence["candidates"][1]
        best = np.where(candidates, model.predict_proba(split.training.bags), -np.inf).argmax(axis=1)
        found["candidate accuracy"] = float(np.mean(best == split.training.bag_truth))
    if part.instance_truth is not None:
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
