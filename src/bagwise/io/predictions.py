"""What a fitted model says, as tables: one row per instance, per part, per bag; in the kind that the bags came from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._frames import as_kind
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import positive_proba


def is_of_classes(model: Any) -> bool:
    """Whether a model chooses one class out of many, so that its probabilities have one column per class."""
    return bool(model.rule_.of_classes)


def instance_table(model: Any, bags: Bags, labels: Sequence[str] = (), *, given: Any = None) -> Any:
    """bag, row, probability, mean, sd, in the order of the original table; with several labels one set of each.

    ``row`` is the row of the original table, mean and sd those of the latent function. Bags with parts add the part,
    bags with metadata their columns. A model of one class out of many adds its prediction and has one set for every
    class. ``given`` are labels of the bags that probabilities are to be conditioned on.
    """
    columns = _class_columns(model, bags) if is_of_classes(model) else _instance_columns(model, bags, labels, given)
    ids = np.array(bags.ids, dtype=object)[bags.index]
    part = {} if bags.part is None else {"part": bags.part}
    table = pd.DataFrame({"bag": ids} | part | _described(bags, {*columns, "bag", "part", "row"}) | {"row": bags.rows})
    whole = pd.concat([table, pd.DataFrame(columns)], axis=1)
    return as_kind(whole.sort_values("row", kind="stable", ignore_index=True), bags.frame_kind)


def _described(bags: Bags, taken: set[str]) -> dict[str, NDArray[Any]]:
    """The metadata by column; one that is called like a column of answers gets another name."""
    meta = bags.meta
    if meta is None:
        return {}
    return {f"meta_{name}" if name in taken else str(name): meta[name].to_numpy() for name in meta}


def _told(given: Any) -> dict[str, Any]:
    return {} if given is None else {"given": given}


def _instance_columns(model: Any, bags: Bags, labels: Sequence[str], given: Any) -> dict[str, NDArray[Any]]:
    mean, variance = model.predict_latent(bags)
    probability = positive_proba(model.predict_instance_proba(bags, **_told(given)), model.classes_)
    return _by_label({"probability": probability, "mean": mean, "sd": np.sqrt(variance)}, labels)


def _class_columns(model: Any, bags: Bags) -> dict[str, NDArray[Any]]:
    """The probability of every class, none of them last, the most probable one, and the latent moments."""
    probability, (mean, variance) = model.predict_instance_proba(bags), model.predict_latent(bags)
    names = [str(name) for name in model.instance_classes_]
    prediction = model.instance_classes_[probability.argmax(axis=1)]
    latent = _by_label({"mean": mean, "sd": np.sqrt(variance)}, names[: mean.shape[1]])
    return {"prediction": prediction} | _by_label({"probability": probability}, names) | latent


def part_table(model: Any, bags: Bags, labels: Sequence[str] = (), *, given: Any = None) -> Any:
    """bag, part, size, probability of every part (the slides of a patient); with several labels one probability each.

    ``given`` are labels of the bags that probabilities are to be conditioned on.
    """
    if is_of_classes(model):
        raise BagDataError(f"{type(model).__name__} chooses one class out of many; it has no answers about parts.")
    parts = bags.by_part()
    probability = positive_proba(model.predict_part_proba(bags, **_told(given)), model.classes_)
    whole = {"bag": list(parts.group), "part": list(parts.ids), "size": parts.sizes}
    return as_kind(pd.DataFrame(whole | _by_label({"probability": probability}, labels)), bags.frame_kind)


def bag_table(model: Any, bags: Bags, labels: Sequence[str] = (), *, given: Any = None) -> Any:
    """bag, size, probability, prediction (the more probable class); with several labels one set of each.

    Models that can tell the fraction of positives add their expectation and the ends of its 90 % interval: fraction,
    fraction_low, fraction_high. ``given`` are labels of the bags; the fractions do not know of them.
    """
    if is_of_classes(model):
        return as_kind(_class_table(model, bags), bags.frame_kind)
    probability = positive_proba(model.predict_proba(bags, **_told(given)), model.classes_)
    classes = model.classes_[0] if np.ndim(model.classes_) == 2 else model.classes_
    columns = {"probability": probability, "prediction": np.where(probability > 0.5, classes[1], classes[0])}
    if hasattr(model, "predict_fraction"):
        columns |= dict(zip(("fraction", "fraction_low", "fraction_high"), model.predict_fraction(bags), strict=True))
    whole = {"bag": list(bags.ids), "size": bags.sizes} | _by_label(columns, labels)
    return as_kind(pd.DataFrame(whole), bags.frame_kind)


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
