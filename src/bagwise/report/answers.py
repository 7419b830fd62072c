"""What a model says about some bags, in the one form the page needs: columns of truth and probability."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence import COUNT, FRACTION, Evidence
from bagwise.exceptions import BagDataError
from bagwise.metrics import instance_truth, positive_proba, truth_of
from bagwise.models.count_input import holds_positive, read_statement
from bagwise.predict_counts import FractionSummary

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CountAnswers:
    """What the model says of the numbers of positives, asked where the truth speaks of them."""

    expected: FractionSummary  # (B,) each; the interval is one of 90 %
    range_probability: Floats  # (B,) P(the number is in the stated range); of no meaning where none is stated


@dataclass(frozen=True)
class Answers:
    """Everything by label column: K columns, one for a model of a single label."""

    bags: Bags
    labels: tuple[str, ...]
    several: bool
    bag_probability: Floats  # (B, K)
    bag_truth: Floats | None  # (B, K) of 0, 1, NaN
    instance_probability: Floats  # (N, K)
    instance_truth: Floats | None  # (N, K)
    stated: Evidence | None = None  # the truth about bags, where it is more than labels
    counts: CountAnswers | None = None


def collect(model: Any, bags: Bags, y: Any, instance_y: Any) -> Answers:
    """Ask the model once for everything.

    ``y`` is what ``fit`` takes: labels, or fractions or ranges of counts where the model was fitted to such, or an
    ``Evidence``. Of the latter a bag's label is whether it is said to hold a positive.
    """
    classes = model.classes_
    stated = None if y is None else _statement(model, bags, y)
    truth = (
        y if y is None else truth_of(_checked_labels(y, bags), classes) if stated is None else holds_positive(stated)
    )
    return Answers(
        bags=bags,
        labels=label_names(model),
        several=np.ndim(classes) == 2,
        bag_probability=_columns(positive_proba(model.predict_proba(bags), classes)),
        bag_truth=None if truth is None else _columns(truth),
        instance_probability=_columns(positive_proba(model.predict_instance_proba(bags), classes)),
        instance_truth=None
        if instance_y is None
        else _columns(instance_truth(_per_instance(instance_y, bags), classes)),
        stated=stated,
        counts=None if stated is None else _count_answers(model, bags, stated),
    )


def _statement(model: Any, bags: Bags, y: Any) -> Evidence | None:
    stated = read_statement(y, bags, True, getattr(model, "evidence", "label"), 1.0)
    if stated is not None and np.ndim(model.classes_) == 2:
        raise BagDataError(
            f"the model has {len(model.classes_)} label columns; compare it with labels, one per column."
        )
    return stated


def _count_answers(model: Any, bags: Bags, stated: Evidence) -> CountAnswers | None:
    """Nothing for a model that cannot tell, or where only labels are stated."""
    if not hasattr(model, "predict_fraction") or not np.isin(stated.kind, (FRACTION, COUNT)).any():
        return None
    ranged = stated.kind == COUNT
    ends = (np.where(ranged, part, 0.0).astype(np.int64) for part in (stated.first, stated.second))
    return CountAnswers(model.predict_fraction(bags), model.predict_count_proba(bags, *ends))


def label_names(model: Any) -> tuple[str, ...]:
    """Names of the label columns: from the table the model was fitted on, or made up."""
    known = model.columns_.get("label") or model.label_names_ or ["label"]
    return tuple(str(name) for name in known)


def _checked_labels(y: Any, bags: Bags) -> NDArray[Any]:
    labels = bags.align(y) if isinstance(y, dict | pd.Series | pd.DataFrame) else np.asarray(y)
    if labels.shape[:1] != (len(bags),):
        raise BagDataError(f"y: expected one label per bag ({len(bags)}), got shape {labels.shape}.")
    return labels


def _per_instance(instance_y: Any, bags: Bags) -> NDArray[Any]:
    values = np.asarray(instance_y)
    if values.shape[:1] != (bags.n_instances,):
        raise BagDataError(
            f"instance_y: expected one label per instance ({bags.n_instances}), got shape {values.shape}."
        )
    return values


def _columns(values: Floats) -> Floats:
    return values if values.ndim == 2 else values[:, None]
