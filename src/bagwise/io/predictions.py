"""What a fitted model says, as tables: one row per instance, one row per bag."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.metrics import positive_proba


def is_of_classes(model: Any) -> bool:
    """Whether a model chooses one class out of many, so that its probabilities have one column per class."""
    return bool(getattr(model, "rule_", model).of_classes)


def instance_table(model: Any, bags: Bags, labels: Sequence[str] = ()) -> pd.DataFrame:
    """bag, row, probability, mean, sd, in the order of the original table; with several labels one set of each.

    ``row`` is the row of the original table, mean and sd those of the latent function, which baselines do not have. A
    model of one class out of many adds its prediction and has one set for every class.
    """
    columns = _class_columns(model, bags) if is_of_classes(model) else _instance_columns(model, bags, labels)
    ids = np.array(bags.ids, dtype=object)[bags.index]
    table = pd.DataFrame({"bag": ids, "row": bags.rows} | columns)
    return table.sort_values("row", kind="stable", ignore_index=True)


def _instance_columns(model: Any, bags: Bags, labels: Sequence[str]) -> dict[str, NDArray[Any]]:
    probability = positive_proba(model.predict_instance_proba(bags), model.classes_)
    return _by_label({"probability": probability} | _latent_columns(model, bags), labels)


def _latent_columns(model: Any, bags: Bags) -> dict[str, NDArray[Any]]:
    if not hasattr(model, "predict_latent"):
        return {}
    mean, variance = model.predict_latent(bags)
    return {"mean": mean, "sd": np.sqrt(variance)}


def _class_columns(model: Any, bags: Bags) -> dict[str, NDArray[Any]]:
    """The probability of every class, none of them last, the most probable one, and the latent moments."""
    probability, latent = model.predict_instance_proba(bags), _latent_columns(model, bags)
    names = [str(name) for name in model.instance_classes_]
    prediction = model.instance_classes_[probability.argmax(axis=1)]
    moments = _by_label(latent, names[: latent["mean"].shape[1]]) if latent else {}
    return {"prediction": prediction} | _by_label({"probability": probability}, names) | moments


def bag_table(model: Any, bags: Bags, labels: Sequence[str] = ()) -> pd.DataFrame:
    """bag, size, probability, prediction (the more probable class); with several labels one set of each.

    Models that can tell the fraction of positives add their expectation and the ends of its 90 % interval: fraction,
    fraction_low, fraction_high.
    """
    if is_of_classes(model):
        return _class_table(model, bags)
    probability = positive_proba(model.predict_proba(bags), model.classes_)
    classes = model.classes_[0] if np.ndim(model.classes_) == 2 else model.classes_
    columns = {"probability": probability, "prediction": np.where(probability > 0.5, classes[1], classes[0])}
    if hasattr(model, "predict_fraction"):
        columns |= dict(zip(("fraction", "fraction_low", "fraction_high"), model.predict_fraction(bags), strict=True))
    return pd.DataFrame({"bag": list(bags.ids), "size": bags.sizes} | _by_label(columns, labels))


def _class_table(model: Any, bags: Bags) -> pd.DataFrame:
    probability = model.predict_proba(bags)
    said = {"prediction": model.classes_[probability.argmax(axis=1)]}
    names = [str(name) for name in model.classes_]
    shares = _by_label({"probability": probability}, names)
    return pd.DataFrame({"bag": list(bags.ids), "size": bags.sizes} | said | shares)


def _by_label(columns: dict[str, NDArray[Any]], labels: Sequence[str]) -> dict[str, NDArray[Any]]:
    """(n, K) arrays as columns called ``name_label``, those of one label together; (n,) arrays as they are."""
    n_labels = next(iter(columns.values())).shape[1:]
    if not n_labels:
        return columns
    names = list(labels) or [str(number) for number in range(*n_labels)]
    return {f"{name}_{label}": table[:, k] for k, label in enumerate(names) for name, table in columns.items()}
