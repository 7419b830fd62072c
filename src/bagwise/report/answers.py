"""What a model says about some bags, in the one form the page needs: columns of truth and probability."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import instance_truth, positive_proba, truth_of

Floats = NDArray[np.float64]


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


def collect(model: Any, bags: Bags, y: Any, instance_y: Any) -> Answers:
    """Ask the model once for everything."""
    classes = model.classes_
    return Answers(
        bags=bags,
        labels=label_names(model),
        several=isinstance(classes, list),
        bag_probability=_columns(positive_proba(model.predict_proba(bags), classes)),
        bag_truth=None if y is None else _columns(truth_of(_checked_labels(y, bags), classes)),
        instance_probability=_columns(positive_proba(model.predict_instance_proba(bags), classes)),
        instance_truth=None
        if instance_y is None
        else _columns(instance_truth(_per_instance(instance_y, bags), classes)),
    )


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
