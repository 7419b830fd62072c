"""The parts of the page, as plain values: nothing here knows of HTML."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.evidence.statements import COUNT, FRACTION
from bagwise.gp import kernels
from bagwise.inference.chains.diagnostics import LARGEST_R_HAT, SMALLEST_ESS
from bagwise.metrics import MEAN_ROW, bag_report, class_report, count_report, fraction_report, instance_report
from bagwise.models._base.fit_record import FitRecord
from bagwise.models._base.flat_evidence import starts_told, stays
from bagwise.report.answers import Answers

Floats = NDArray[np.float64]

MEASURES = {
    "n": "labelled",
    "positive_share": "positive share",
    "accuracy": "accuracy",
    "auc": "AUC",
    "average_precision": "average precision",
    "recall_at_precision_90": "found at precision 0.9",
    "log_likelihood": "log-likelihood",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
COUNT_MEASURES = {
    "n": "stated",
    "range_log_likelihood": "log-likelihood of the stated ranges",
    "intervals_met": "90 % interval meets the stated range",
    "mean_absolute_error": "mean absolute error",
    "coverage": "inside the 90 % interval",
    "interval_width": "mean width of the interval",
}
COUNTED = {"fractions", "counts"}
CLASS_MEASURES = {
    "n": "known",
    "accuracy": "most probable class right (or a candidate)",
    "log_likelihood": "log-likelihood of the class (or the candidates)",
    "calibration_error": "calibration error of the largest probability",
}
CLASSES = {"bag classes", "instance classes"}
OUTCOMES = "outcomes"


@dataclass(frozen=True)
class Headline:
    """One large number and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class ReportTable:
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
    """The measures of what there is a truth for: {"bags": …, "instances": …, "fractions": …, "counts": …}."""
    found: dict[str, dict[str, Any]] = {}
    measured = answers.measured_truth()
    if answers.outcomes and measured is not None:
        found[OUTCOMES] = {outcome.labels[0]: _share_report(outcome) for outcome in answers.outcomes}
    if measured is not None and not answers.of_shares:
        found["bags"] = bag_report(*_shaped(answers, measured, answers.bag_probability), answers.labels)
    if answers.instance_truth is not None:
        truth, proba = _shaped(answers, answers.instance_truth, answers.instance_probability)
        found["instances"] = instance_report(truth, proba, answers.labels)
    return _class_reports(answers) | found | _count_reports(answers)


def _share_report(answers: Answers) -> dict[str, float]:
    """How well stated shares, or exact numbers as shares, are predicted."""
    assert answers.counts is not None
    low, high = answers.stated_shares()
    return fraction_report(np.where(low == high, low, np.nan), *answers.counts.expected, answers.bags.totals)


def _class_reports(answers: Answers) -> dict[str, dict[str, Any]]:
    found, classes = {}, answers.classes
    if classes is not None and classes.bag_candidates is not None:
        found["bag classes"] = class_report(classes.bag_candidates, classes.bag_probability)
    if classes is not None and classes.instance_candidates is not None:
        found["instance classes"] = class_report(classes.instance_candidates, classes.instance_probability)
    return found


def _count_reports(answers: Answers) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if answers.counts is None or answers.stated is None:
        return found
    stated, expected, sizes = answers.stated, answers.counts.expected, answers.bags.totals
    if (stated.kind == FRACTION).any():
        truth = np.where(stated.kind == FRACTION, stated.first, np.nan)
        found["fractions"] = fraction_report(truth, *expected, sizes)
    if (stated.kind == COUNT).any():
        lo, hi = (np.where(stated.kind == COUNT, part, np.nan) for part in (stated.first, stated.second))
        chance = answers.counts.range_probability
        found["counts"] = count_report(lo, hi, chance, expected.lower * sizes, expected.upper * sizes)
    return found


def _shaped(answers: Answers, truth: Floats, proba: Floats) -> tuple[Floats, Floats]:
    return (truth, proba) if answers.several else (truth[:, 0], proba[:, 0])


def headlines(found: Mapping[str, dict[str, Any]]) -> Iterator[Headline]:
    """The figures to read first."""
    yield from _count_headlines(found)
    yield from _class_headlines(found)
    yield from _outcome_headlines(found.get(OUTCOMES, {}))
    for what, report in found.items():
        if (
            what in COUNTED | CLASSES | {OUTCOMES}
            or bool(CLASSES & set(found))
            or (len(COUNTED & set(found)) and math.isnan(report.get("auc", 0.0)))
        ):
            continue
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


def _class_headlines(found: Mapping[str, dict[str, Any]]) -> Iterator[Headline]:
    for what in ("bag classes", "instance classes"):
        if what in found:
            one = what.split()[0]
            yield Headline(
                f"accuracy of {one} classes",
                number(found[what]["accuracy"]),
                f"share of the {one}s whose most probable class is right, or one of the candidates",
            )
            yield Headline(
                f"log-likelihood of {one} classes",
                number(found[what]["log_likelihood"]),
                "mean log probability of what was true; nearer 0 is better",
            )


_WIDTH = ("width of the interval", "interval_width", "mean over bags; narrower says more")
_COUNT_HEADLINES = {
    "fractions": (
        (
            "error of fractions",
            "mean_absolute_error",
            "mean distance between the fraction expected in a bag and the one stated",
        ),
        (
            "fractions inside the interval",
            "coverage",
            "share of bags whose 90 % interval holds the stated fraction; 0.9 or more is right",
        ),
        _WIDTH,
    ),
    "counts": (
        (
            "log-likelihood of ranges",
            "range_log_likelihood",
            "mean log probability of the stated range; nearer 0 is better",
        ),
        (
            "intervals that meet the range",
            "intervals_met",
            "share of bags whose 90 % interval for the count meets the stated range; 0.9 or more is right",
        ),
        _WIDTH,
    ),
}


def _count_headlines(found: Mapping[str, dict[str, Any]]) -> Iterator[Headline]:
    for kind, headlines in _COUNT_HEADLINES.items():
        if kind in found:
            yield from (Headline(title, number(found[kind][name]), meaning) for title, name, meaning in headlines)


def _outcome_headlines(found: Mapping[str, Mapping[str, float]]) -> Iterator[Headline]:
    """The headlines of fractions, as means over the outcomes."""
    for title, name, meaning in _COUNT_HEADLINES["fractions"] if found else ():
        mean = float(np.mean([report[name] for report in found.values()]))
        yield Headline(f"{title} (mean over {len(found)} outcomes)", number(mean), meaning)


def _share_log_likelihood(share: float) -> float:
    """What the constant answer "the share of positives" would get."""
    return float(sum(p * math.log(p) for p in (share, 1.0 - share) if p > 0)) if not math.isnan(share) else math.nan


def measure_tables(
    found: Mapping[str, dict[str, Any]], by_label: Sequence[str] = tuple(MEASURES)
) -> Iterator[ReportTable]:
    """One column for bags and one for instances; or, with several labels, one row per label (measures ``by_label``)."""
    single = {
        what: report
        for what, report in found.items()
        if MEAN_ROW not in report and what not in COUNTED | CLASSES | {OUTCOMES}
    }
    if single:
        rows = [(text, *(_entry(name, report) for report in single.values())) for name, text in MEASURES.items()]
        yield ReportTable("Measures", ("", *single), rows)
    for what, report in found.items():
        if what == OUTCOMES:
            named = {name: text for name, text in COUNT_MEASURES.items() if name in next(iter(report.values()))}
            lines = [(outcome, *(_entry(name, row) for name in named)) for outcome, row in report.items()]
            yield ReportTable("Measures of outcomes", ("outcome", *named.values()), lines)
        if MEAN_ROW in report:
            lines = [(label, *(_entry(name, row) for name in by_label)) for label, row in report.items()]
            yield ReportTable(f"Measures of {what}", ("label", *(MEASURES[name] for name in by_label)), lines)
        if what in COUNTED | CLASSES:
            named = COUNT_MEASURES if what in COUNTED else CLASS_MEASURES
            rows = [(text, _entry(name, report)) for name, text in named.items() if name in report]
            yield ReportTable(f"Measures of {what}", ("", what.split()[0] + "s" if what in CLASSES else "bags"), rows)


def _entry(name: str, report: Mapping[str, float]) -> str:
    if name == "n":
        missing = f" ({report['missing']:g} without truth)" if report["missing"] else ""
        return f"{report['n']:g}{missing}"
    return number(report[name])


# ---------------------------------------------------------------- what it is


def settings(model: Any) -> ReportTable:
    """The constructor's arguments."""
    chosen = [(name, _short(value)) for name, value in model.get_params(deep=False).items() if name != "callback"]
    return ReportTable("Settings", ("setting", "value"), chosen)


def outcome(model: Any) -> ReportTable:
    """What fitting arrived at."""
    rows = [
        *_iterations(model.fit_record().trace),
        *_learned(model.fit_record()),
        *_mixing_rows(model),
        ("features", f"{model.n_features_in_}"),
        _classes(model.classes_, of_classes=model.of_classes),
        ("probabilities", model.card.probabilities),
    ]
    return ReportTable("Outcome", ("", ""), rows)


def _iterations(trace: Any) -> Iterator[tuple[str, str]]:
    """Nothing for a baseline."""
    if trace is not None:
        yield "iterations", _course(trace)
        yield f"final {trace.name}", number(float(trace.values[-1])) if len(trace.values) else "–"


def _course(trace: Any) -> str:
    return f"{len(trace.values)} ({'settled' if trace.converged else 'stopped before they settled'})"


def _learned(record: FitRecord) -> Iterator[tuple[str, str]]:
    """The inference, the kernel and the mean that came of it; not every model has each."""
    if record.inference is not None:
        yield "inference", _short(record.inference)
    if record.solver is not None:
        yield "solver", _short(record.solver)
    if record.learning is not None:
        yield "trials of the kernel", _course(record.learning)
        if record.learning.gains:
            yield "starts of the search for the kernel", starts_told(record.learning)
    if record.kernel is not None:
        learned = record.learning is not None and not stays(record.learning)
        yield "kernel, learned" if learned else "kernel", _short(kernels.summary(record.kernel), 160)
    if record.mean is not None:
        yield "mean of the latent function", ", ".join(number(float(value)) for value in np.ravel(record.mean)[:6])
    shared = record.group_effect
    if shared is not None and shared.size > 0:
        text = f"{number(shared.common, 2)} common to a bag, {number(shared.own, 2)} of those alike in it"
        yield "effects of bags (standard deviations)", text
        if shared.by_group:
            yield "effects of bags, by group", ", ".join(number(size, 2) for size in shared.by_group)
    effect = record.size_effect
    if effect is not None:
        pairs = zip(np.ravel(effect.mean)[:6], np.ravel(effect.sd)[:6], strict=True)
        yield "effect of log size", ", ".join(f"{number(float(m))} ± {number(float(sd))}" for m, sd in pairs)
    if record.leftovers == "none":
        yield "instances unlike all others", "count as ordinary ones: left-out training bags were told better so"


# ---------------------------------------------------------------- whether chains can be trusted


def mixing(model: Any) -> tuple[float, float] | None:
    """Largest R-hat and smallest bulk effective sample size of a model fitted by chains; None for any other."""
    chains = model.fit_record().chains
    if chains is None:
        return None
    table = chains.table
    r_hat, ess = (np.asarray(table[name], dtype=np.float64) for name in ("r_hat", "ess_bulk"))
    return float(np.max(r_hat, initial=1.0)), float(np.min(ess, initial=np.inf))


def mixing_warning(model: Any) -> str | None:
    """A sentence where the chains have not converged; what cannot be measured counts as not converged."""
    found = mixing(model)
    if found is None or (found[0] <= LARGEST_R_HAT and found[1] >= SMALLEST_ESS):
        return None
    return (
        f"The chains have not converged: the largest R-hat is {number(found[0])} (at most {LARGEST_R_HAT} is good), "
        f"the smallest bulk effective sample size {number(found[1], 0)} (at least {SMALLEST_ESS}). Everything below "
        "may change with longer chains; raise n_samples."
    )


def _mixing_rows(model: Any) -> Iterator[tuple[str, str]]:
    found = mixing(model)
    if found is not None:
        yield "largest R-hat", number(found[0])
        yield "smallest bulk effective sample size", number(found[1], 0)


def _classes(classes: Any, of_classes: bool) -> tuple[str, str]:
    if of_classes:
        return "classes", _short(", ".join(map(str, np.asarray(classes).tolist())), 160)
    pair = np.asarray(classes[0] if np.ndim(classes) == 2 else classes).tolist()
    columns = f" in each of {len(classes)} columns" if np.ndim(classes) == 2 else ""
    return "classes (the second is positive)", f"{pair[0]}, {pair[1]}{columns}"


def _short(value: Any, limit: int = 80) -> str:
    text = f"array of shape {value.shape}" if isinstance(value, np.ndarray) else " ".join(str(value).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
