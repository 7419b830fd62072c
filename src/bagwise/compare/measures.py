"""What is measured for each kind of evidence, and which way is better."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bench.description import Floats, Measured, Part, Split
from bagwise.bench.measure import binary_answers
from bagwise.metrics import class_report, count_report, fraction_report, instance_report, positive_proba

METRICS = {
    "label": ("bag auc", "bag accuracy", "bag log_likelihood", "bag calibration_error"),
    "fraction": ("fraction mean_absolute_error", "fraction coverage", "fraction interval_width"),
    "count": ("count range_log_likelihood", "count intervals_met", "count interval_width"),
    "candidates": ("class accuracy", "class log_likelihood", "class calibration_error"),
}
OF_INSTANCES = ("instance auc", "instance log_likelihood")
_LOWER_IS_BETTER = ("calibration_error", "mean_absolute_error", "interval_width", "brier")
_COUNTS = ("n", "missing")


def metrics_of(evidence: str, with_instances: bool) -> tuple[str, ...]:
    """The first one decides who is best, unless the user names another."""
    return METRICS[evidence] + (OF_INSTANCES if with_instances and evidence != "candidates" else ())


def sign_of(metric: str) -> int:
    """1 where more is better, -1 where less is."""
    return -1 if metric.split(" ", 1)[1] in _LOWER_IS_BETTER else 1


def fraction_answers(model: Any, split: Split) -> Measured:
    """How well the fractions of positives are predicted: by the model itself, or as the mean over instances."""
    (part,) = split.parts
    if model.abilities.fractions:
        mean, lower, upper = model.predict_fraction(part.bags)
        return _measured(part, model, "fraction", fraction_report(part.bag_truth, mean, lower, upper, part.bags.sizes))
    mean = np.add.reduceat(_instances(model, part), part.bags.offsets[:-1]) / part.bags.sizes
    error = fraction_report(part.bag_truth, mean, mean, mean, part.bags.sizes)["mean_absolute_error"]
    return _measured(part, model, "fraction", {"mean_absolute_error": error})


def count_answers(model: Any, split: Split) -> Measured:
    """How well the numbers of positives are predicted."""
    (part,) = split.parts
    assert part.bag_truth is not None
    lo, hi = part.bag_truth.T
    chance = model.predict_count_proba(part.bags, lo.astype(np.int64), hi.astype(np.int64))
    _, lower, upper = model.predict_fraction(part.bags)
    ends = lower * part.bags.sizes, upper * part.bags.sizes
    return _measured(part, model, "count", count_report(lo, hi, chance, *ends))


def candidate_answers(model: Any, split: Split) -> Measured:
    """How often the most probable class is a candidate, and how probable the candidates are."""
    (part,) = split.parts
    found = class_report(part.bag_truth, model.predict_proba(part.bags))
    return Measured({part.rows[0]: _named("class", found)}, {})


ANSWERS = {
    "label": binary_answers,
    "fraction": fraction_answers,
    "count": count_answers,
    "candidates": candidate_answers,
}


def _measured(part: Part, model: Any, level: str, report: dict[str, float]) -> Measured:
    found = _named(level, report)
    if part.instance_truth is not None:
        found |= _named("instance", instance_report(part.instance_truth, _instances(model, part)))
    return Measured({part.rows[0]: found}, {})


def _instances(model: Any, part: Part) -> NDArray[np.float64]:
    proba: Floats = positive_proba(model.predict_instance_proba(part.bags), model.classes_)
    return proba


def _named(level: str, report: dict[str, float]) -> dict[str, float]:
    return {f"{level} {name}": float(value) for name, value in report.items() if name not in _COUNTS}
