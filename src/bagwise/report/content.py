"""The parts of the page, as plain values: nothing here knows of HTML."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.metrics import MEAN_ROW, bag_report, instance_report
from bagwise.report.answers import Answers

Floats = NDArray[np.float64]

MEASURES = {
    "n": "labelled",
    "positive_share": "positive share",
    "accuracy": "accuracy",
    "auc": "AUC",
    "average_precision": "average precision",
    "log_likelihood": "log-likelihood",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}


@dataclass(frozen=True)
class Headline:
    """One large number and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """Rows of text under a title."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def number(value: float, digits: int = 3) -> str:
    """A number for reading: an en dash where it is undefined, a true minus sign."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return f"{value:.{digits}f}".replace("-", "−")


# ---------------------------------------------------------------- how good it is


def reports(answers: Answers) -> dict[str, dict[str, Any]]:
    """The measures of bags and, where their truth is known, of instances: {"bags": …, "instances": …}."""
    found = {}
    if answers.bag_truth is not None:
        found["bags"] = bag_report(*_shaped(answers, answers.bag_truth, answers.bag_probability), answers.labels)
    if answers.instance_truth is not None:
        truth, proba = _shaped(answers, answers.instance_truth, answers.instance_probability)
        found["instances"] = instance_report(truth, proba, answers.labels)
    return found


def _shaped(answers: Answers, truth: Floats, proba: Floats) -> tuple[Floats, Floats]:
    return (truth, proba) if answers.several else (truth[:, 0], proba[:, 0])


def headlines(found: Mapping[str, dict[str, Any]]) -> Iterator[Headline]:
    """The figures to read first."""
    for what, report in found.items():
        one, row = what.removesuffix("s"), report.get(MEAN_ROW, report)
        over = f" (mean over {len(report) - 1} labels)" if MEAN_ROW in report else ""
        yield Headline(
            f"{one} AUC{over}",
            number(row["auc"]),
            f"how often a positive {one} is ranked above a negative one: 1 is always, 0.5 is chance",
        )
        yield Headline(
            f"{one} log-likelihood{over}",
            number(row["log_likelihood"]),
            f"nearer 0 is better; always answering “{number(row['positive_share'], 2)}” would give "
            f"{number(_share_log_likelihood(row['positive_share']))}",
        )
        yield Headline(
            f"{one} calibration error{over}",
            number(row["calibration_error"]),
            "mean distance between the probability stated and the frequency observed",
        )


def _share_log_likelihood(share: float) -> float:
    """What the constant answer "the share of positives" would get."""
    return float(sum(p * math.log(p) for p in (share, 1.0 - share) if p > 0)) if not math.isnan(share) else math.nan


def measure_tables(found: Mapping[str, dict[str, Any]], by_label: Sequence[str] = tuple(MEASURES)) -> Iterator[Table]:
    """One column for bags and one for instances; or, with several labels, one row per label (measures ``by_label``)."""
    single = {what: report for what, report in found.items() if MEAN_ROW not in report}
    if single:
        rows = [(text, *(_entry(name, report) for report in single.values())) for name, text in MEASURES.items()]
        yield Table("Measures", ("", *single), rows)
    for what, report in found.items():
        if MEAN_ROW in report:
            lines = [(label, *(_entry(name, row) for name in by_label)) for label, row in report.items()]
            yield Table(f"Measures of {what}", ("label", *(MEASURES[name] for name in by_label)), lines)


def _entry(name: str, report: Mapping[str, float]) -> str:
    if name == "n":
        missing = f" ({report['missing']:g} without truth)" if report["missing"] else ""
        return f"{report['n']:g}{missing}"
    return number(report[name])


# ---------------------------------------------------------------- what it is


def settings(model: Any) -> Table:
    """The constructor's arguments, and what fitting made of them."""
    chosen = [(name, _short(value)) for name, value in model.get_params(deep=False).items() if name != "callback"]
    return Table("Settings", ("setting", "value"), chosen)


def outcome(model: Any) -> Table:
    """What fitting arrived at."""
    trace = model.trace_
    rows = [
        ("iterations", f"{len(trace.values)} ({'settled' if trace.converged else 'stopped before they settled'})"),
        (f"final {trace.name}", number(float(trace.values[-1])) if len(trace.values) else "–"),
        ("features", f"{model.n_features_in_}"),
        ("classes (the second is positive)", _classes(model.classes_)),
    ]
    return Table("Outcome", ("", ""), rows)


def _classes(classes: Any) -> str:
    pair = np.asarray(classes[0] if isinstance(classes, list) else classes).tolist()
    return f"{pair[0]}, {pair[1]}" + (f" in each of {len(classes)} columns" if isinstance(classes, list) else "")


def _short(value: Any, limit: int = 80) -> str:
    text = f"array of shape {value.shape}" if isinstance(value, np.ndarray) else " ".join(str(value).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
