"""How good are the probabilities? Truth is 0, 1 or NaN (unknown, left out and counted)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from bagwise._validation import check_count, check_option, shorten
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]

MEAN_ROW = "mean of columns"


# ---------------------------------------------------------------- single measures


def log_likelihood(y: Any, p: Any) -> float:
    """Mean log probability of what was true; minus infinity where a certainty was wrong."""
    truth, proba = _known(*_checked(y, p))
    with np.errstate(divide="ignore"):
        return _mean(np.log(np.where(truth == 1, proba, 1.0 - proba)))


def brier(y: Any, p: Any) -> float:
    """Mean squared distance between probability and truth: 0 is perfect, 0.25 is a coin."""
    truth, proba = _known(*_checked(y, p))
    return _mean((proba - truth) ** 2)


def expected_auc(p: Any) -> float:
    """The AUC to expect where nothing is labelled yet, if the probabilities p are right and labels independent.

    Of a pair (i, j) the first is positive and the second negative with probability p_i (1 - p_j); it is ranked rightly
    if p_i > p_j (half where they are equal). NaN for fewer than two entries, or where one class is certain.
    """
    proba = np.sort(_numbers(p, "p"))
    below = np.concatenate([[0.0], np.cumsum(1.0 - proba)])  # expected number of negatives below every place
    left, right = (np.searchsorted(proba, proba, side=side) for side in ("left", "right"))
    ranked = proba * 0.5 * (below[left] + below[right])
    itself = proba * (1.0 - proba)
    pairs = proba.sum() * (1.0 - proba).sum() - itself.sum()
    return float((ranked - 0.5 * itself).sum() / pairs) if pairs > 0 else float("nan")


@dataclass(frozen=True)
class ReliabilityCurve:
    """Per bin that holds anything: mean predicted probability, observed share of positives, number of entries."""

    mean_predicted: Floats
    observed: Floats
    counts: NDArray[np.int64]


def reliability_curve(y: Any, p: Any, n_bins: int = 10, strategy: str = "uniform") -> ReliabilityCurve:
    """Predicted against observed, in bins of equal width ("uniform") or about equal numbers ("quantile")."""
    check_count("n_bins", n_bins)
    check_option("strategy", strategy, ("uniform", "quantile"))
    truth, proba = _known(*_checked(y, p))
    steps = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    edges = steps if strategy == "uniform" or len(proba) == 0 else np.unique(np.quantile(proba, steps))
    bins = np.searchsorted(edges, proba, side="right")
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    sums = (np.bincount(bins, weights=values, minlength=n_bins)[filled] for values in (proba, truth))
    predicted, observed = (total / counts[filled] for total in sums)
    return ReliabilityCurve(predicted, observed, counts[filled])


def calibration_error(y: Any, p: Any, n_bins: int = 10, strategy: str = "uniform") -> float:
    """Expected calibration error: mean distance between predicted and observed, weighted by the size of the bins."""
    curve = reliability_curve(y, p, n_bins, strategy)
    if len(curve.counts) == 0:
        return float("nan")
    return float(np.average(np.abs(curve.mean_predicted - curve.observed), weights=curve.counts))


def recall_at_precision(y: Any, p: Any, precision: float = 0.9) -> float:
    """The largest share of the positives that a threshold finds while at least ``precision`` of its finds are right.

    0 where no threshold is that precise; NaN where there is no positive.
    """
    truth, proba = _known(*_checked(y, p))
    if not truth.any():
        return float("nan")
    precise, recall, _ = precision_recall_curve(truth, proba)
    return float(recall[:-1][precise[:-1] >= precision].max(initial=0.0))


# ---------------------------------------------------------------- reports


def bag_report(y: Any, p: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """All measures of bag probabilities at once.

    Parameters
    ----------
    y : (B,) or (B, K) truth, 0, 1 or NaN where it is not known
    p : probabilities of the positive class, in the same shape
    names : names of the K columns

    Returns
    -------
    dict of numbers: ``n`` (known), ``missing``, ``positive_share``, ``accuracy`` (at 0.5), ``auc``,
    ``average_precision``, ``recall_at_precision_90``, ``log_likelihood``, ``brier``, ``calibration_error``. What one
    class alone cannot define is NaN. With K columns: one such dict per column, and the mean of those that are defined
    under ``MEAN_ROW``.
    """
    return _report(y, p, names)


def instance_report(y: Any, p: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The measures of ``bag_report`` for instances, in the order of ``bags.X``."""
    return _report(y, p, names)


def fraction_report(fraction: Any, mean: Any, lower: Any, upper: Any, sizes: Any) -> dict[str, float]:
    """How well the fractions of positives in bags are predicted.

    Parameters
    ----------
    fraction : (B,) the true ones, NaN where not known
    mean, lower, upper : (B,) the expected ones and the ends of an interval, as ``predict_fraction`` gives them
    sizes : (B,) numbers of instances

    Returns
    -------
    dict of numbers: ``n`` (known), ``missing``, ``mean_absolute_error``, ``coverage`` (share of the bags whose fraction
    lies in its interval, to half an instance, since fractions are often rounded) and the ``interval_width`` it took.
    """
    truth, middle, low, high, size = (_numbers(part, "fractions") for part in (fraction, mean, lower, upper, sizes))
    known = ~np.isnan(truth)
    inside = (truth >= low - 0.5 / size) & (truth <= high + 0.5 / size)
    return {
        "n": int(known.sum()),
        "missing": int((~known).sum()),
        "mean_absolute_error": _mean(np.abs(middle - truth)[known]),
        "coverage": _mean(inside[known]),
        "interval_width": _mean((high - low)[known]),
    }


def count_report(lo: Any, hi: Any, probability: Any, lower: Any, upper: Any) -> dict[str, float]:
    """How well the numbers of positives in bags are predicted, where only ranges of them are known.

    Parameters
    ----------
    lo, hi : (B,) ends of the true ranges, NaN where not known
    probability : (B,) of the number being in that range, as ``predict_count_proba`` gives it; ignored where not known
    lower, upper : (B,) ends of an interval for the number

    Returns
    -------
    dict of numbers: ``n`` (known), ``missing``, ``range_log_likelihood`` (mean log probability of the ranges),
    ``intervals_met`` (share of the bags whose interval and range have a number in common: at least the level of the
    intervals, if these are right) and the ``interval_width`` it took.
    """
    first, last, chance, low, high = (_numbers(part, "counts") for part in (lo, hi, probability, lower, upper))
    known = ~(np.isnan(first) | np.isnan(last))
    met = (np.maximum(first, low) <= np.minimum(last, high) + 1e-9)[known]
    with np.errstate(divide="ignore"):
        log_chance = np.log(chance[known])
    return {
        "n": int(known.sum()),
        "missing": int((~known).sum()),
        "range_log_likelihood": _mean(log_chance),
        "intervals_met": _mean(met),
        "interval_width": _mean((high - low)[known]),
    }


def class_report(candidates: Any, p: Any) -> dict[str, float]:
    """How well one class out of many is predicted, where it is known exactly or up to a set of candidates.

    Parameters
    ----------
    candidates : (n, q) of 0/1: the classes that may be true, one where it is known; a row of 0 where nothing is
    p : (n, q) probabilities of the classes

    Returns
    -------
    dict of numbers: ``n`` (something known), ``missing``, ``accuracy`` (share whose most probable class is a
    candidate), ``log_likelihood`` (mean log probability of the candidates together) and ``calibration_error`` (of the
    largest probability as that of being right).
    """
    table, proba = np.asarray(candidates, dtype=bool), _numbers(p, "p")
    if table.ndim != 2 or table.shape != proba.shape:
        raise BagDataError(f"candidates have shape {table.shape} and p has shape {proba.shape}; expected (n, q) both.")
    known = table.any(axis=1)
    hits = table[np.arange(len(table)), proba.argmax(axis=1)][known].astype(np.float64)
    with np.errstate(divide="ignore"):
        log_chance = np.log((proba * table).sum(axis=1)[known])
    return {
        "n": int(known.sum()),
        "missing": int((~known).sum()),
        "accuracy": _mean(hits),
        "log_likelihood": _mean(log_chance),
        "calibration_error": calibration_error(hits, np.minimum(proba.max(axis=1)[known], 1.0)),
    }


def class_numbers(values: Any, classes: Any) -> NDArray[np.float64]:
    """Classes of bags or instances as their numbers, NaN where missing: by value, or numbers 0 … q - 1 as they are."""
    given = pd.Series(np.asarray(values).ravel())
    place = {value: number for number, value in enumerate(np.asarray(classes).tolist())}
    found = given.map(place).astype(np.float64)
    if (found.isna() & given.notna()).any():
        numbers = pd.to_numeric(given, errors="coerce")
        strange = given[given.notna() & ~numbers.isin(range(len(place)))]
        if len(strange):
            raise BagDataError(
                f"class {strange.iloc[0]!r}: expected one of {shorten(place)}, or their numbers 0 to {len(place) - 1}."
            )
        found = numbers
    return np.asarray(found, dtype=np.float64)


def _report(y: Any, p: Any, names: Sequence[str] | None) -> dict[str, Any]:
    truth, proba = _checked(y, p)
    if truth.ndim == 1:
        return _measures(truth, proba)
    labels = [str(number) for number in range(truth.shape[1])] if names is None else list(names)
    if len(labels) != truth.shape[1] or len(set(labels)) < len(labels):
        raise BagDataError(f"names: expected {truth.shape[1]} different names, one per column, got {shorten(labels)}.")
    rows = {name: _measures(truth[:, k], proba[:, k]) for k, name in enumerate(labels)}
    return rows | {MEAN_ROW: _mean_of(list(rows.values()))}


def _measures(truth: Floats, proba: Floats) -> dict[str, float]:
    known, p = _known(truth, proba)
    return {
        "n": len(known),
        "missing": len(truth) - len(known),
        "positive_share": _mean(known),
        "accuracy": _mean((p > 0.5) == (known == 1)),
        "auc": _if_both_classes(roc_auc_score, known, p),
        "average_precision": _if_both_classes(average_precision_score, known, p),
        "recall_at_precision_90": _if_both_classes(recall_at_precision, known, p),
        "log_likelihood": log_likelihood(known, p),
        "brier": brier(known, p),
        "calibration_error": calibration_error(known, p),
    }


def _if_both_classes(measure: Callable[[Any, Any], float], truth: Floats, proba: Floats) -> float:
    return float(measure(truth, proba)) if len(np.unique(truth)) == 2 else float("nan")


def _mean_of(rows: list[dict[str, float]]) -> dict[str, float]:
    table = pd.DataFrame(rows)
    return {str(name): float(table[name].mean()) for name in table.columns}


# ---------------------------------------------------------------- truth and probability in one form


def positive_proba(proba: Any, classes: Any) -> Floats:
    """Probabilities of the positive class: (n,) for one label, (n, K) for K; ``classes`` is ``model.classes_``."""
    table = np.asarray(proba, dtype=np.float64)
    return table if np.ndim(classes) == 2 else table[:, 1]


def truth_of(y: Any, classes: Any) -> Floats:
    """Labels in a model's own class values as 1 for the second (positive), 0 for the first, NaN where missing.

    ``classes`` is ``model.classes_``: two values, or one such pair per column of ``y``, (K, 2).
    """
    table = np.asarray(y)
    if np.ndim(classes) != 2:
        if table.ndim != 1 and table.shape[1:] != (1,):
            raise BagDataError(f"the model has one label: expected one column of labels, got shape {table.shape}.")
        return _truth_column(np.ravel(table), classes)
    if table.shape[1:] != (len(classes),):
        raise BagDataError(
            f"the model has {len(classes)} label columns: expected labels of shape (n, {len(classes)}), "
            f"got {table.shape}."
        )
    return np.stack([_truth_column(table[:, k], pair) for k, pair in enumerate(classes)], axis=1)


def instance_truth(instance_y: Any, classes: Any) -> Floats:
    """Instance labels for evaluation as 0, 1 and NaN.

    They may be the model's own class values or plain 0 and 1; for a model of K labels one column per label, or one
    class number per instance (0 … K-1, and K for none of them).
    """
    values = np.asarray(instance_y)
    if np.ndim(classes) == 2 and values.ndim == 1:
        return _one_column_per_class(values, len(classes))
    try:
        return truth_of(values, classes)
    except BagDataError:
        return truth_of(values, np.tile([0, 1], (len(classes), 1)) if np.ndim(classes) == 2 else np.array([0, 1]))


def _truth_column(y: NDArray[Any], classes: Any) -> Floats:
    values = pd.Series(y)
    negative, positive = np.asarray(classes).tolist()
    known = values.notna()
    other = known & (values != negative) & (values != positive)
    if other.any():
        raise BagDataError(f"label {values[other].tolist()[0]!r}: expected {negative!r} or {positive!r} (or missing).")
    return np.where(known, (values == positive).astype(np.float64), np.nan)


def _one_column_per_class(numbers: NDArray[Any], n_classes: int) -> Floats:
    values = _numbers(numbers, "instance labels")
    known = ~np.isnan(values)
    if not np.isin(values[known], np.arange(n_classes + 1)).all():
        raise BagDataError(
            f"instance labels: expected class numbers 0 to {n_classes - 1}, {n_classes} for none of them, NaN unknown."
        )
    return np.where(known[:, None], values[:, None] == np.arange(n_classes), np.nan)


# ---------------------------------------------------------------- checks


def _checked(y: Any, p: Any) -> tuple[Floats, Floats]:
    truth, proba = _numbers(y, "y"), _numbers(p, "p")
    if truth.shape != proba.shape:
        raise BagDataError(
            f"y has shape {truth.shape} and p has shape {proba.shape}: give the probabilities of the positive class in "
            "the shape of y, e.g. predict_proba(bags)[:, 1]."
        )
    if truth.ndim not in (1, 2):
        raise BagDataError(f"y: expected one entry per row, or one column per label, got shape {truth.shape}.")
    if not (np.isnan(truth) | (truth == 0) | (truth == 1)).all():
        raise BagDataError("y: expected 0, 1 or NaN (unknown); for other classes give y == model.classes_[1].")
    if not ((proba >= 0) & (proba <= 1)).all():
        raise BagDataError("p: expected probabilities between 0 and 1.")
    return truth, proba


def _numbers(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BagDataError(
            f"{name}: expected numbers ({error}); for other classes give y == model.classes_[1]."
        ) from error


def _known(truth: Floats, proba: Floats) -> tuple[Floats, Floats]:
    known = ~np.isnan(truth)
    return truth[known], proba[known]


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if values.size else float("nan")
