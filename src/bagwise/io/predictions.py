"""What a fitted model says, as tables: one row per instance, per part, per bag; in the kind that the bags came from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._frames import as_kind
from bagwise.bags import Bags
from bagwise.evidence.statements import label
from bagwise.exceptions import BagDataError
from bagwise.metrics import positive_proba


def instance_table(model: Any, bags: Bags, labels: Sequence[str] = (), *, given: Any = None) -> Any:
    """bag, row, probability, mean, sd, in the order of the original table; with several labels one set of each.

    ``row`` is the row of the original table, mean and sd those of the latent function, which baselines do not have.
    Bags with parts add the part, bags with metadata their columns. A model of one class out of many adds its prediction
    and has one set for every class. ``given`` are labels of the bags that probabilities are to be conditioned on.
    """
    asked = given_argument(model, given)
    columns = _class_columns(model, bags, asked) if model.of_classes else _instance_columns(model, bags, labels, asked)
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


def given_argument(model: Any, given: Any) -> dict[str, Any]:
    """Labels of bags as an argument of ``predict_…``; nothing without, and an error where the model takes none."""
    if given is None:
        return {}
    if not model.abilities.given:
        raise BagDataError(
            f"given: {type(model).__name__} cannot judge instances by the label of their bag; leave out given "
            "(--given-label)."
        )
    return {"given": label(given) if model.kind_of_y in ("fraction", "count") else given}


def _instance_columns(model: Any, bags: Bags, labels: Sequence[str], asked: dict[str, Any]) -> dict[str, NDArray[Any]]:
    probability = positive_proba(model.predict_instance_proba(bags, **asked), model.classes_)
    return _by_label({"probability": probability} | _latent_columns(model, bags), labels)


def _latent_columns(model: Any, bags: Bags) -> dict[str, NDArray[Any]]:
    if not model.abilities.latent:
        return {}
    mean, variance = model.predict_latent(bags)
    return {"mean": mean, "sd": np.sqrt(variance)}


def _class_columns(model: Any, bags: Bags, asked: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The probability of every class, none of them last, the most probable one, and the latent moments."""
    probability, latent = model.predict_instance_proba(bags, **asked), _latent_columns(model, bags)
    names = [str(name) for name in model.instance_classes_]
    prediction = model.instance_classes_[probability.argmax(axis=1)]
    moments = _by_label(latent, names[: latent["mean"].shape[1]]) if latent else {}
    return {"prediction": prediction} | _by_label({"probability": probability}, names) | moments


def part_table(model: Any, bags: Bags, labels: Sequence[str] = (), *, given: Any = None) -> Any:
    """bag, part, size, probability of every part (the slides of a patient); with several labels one probability each.

    ``given`` are labels of the bags that probabilities are to be conditioned on.
    """
    if model.of_classes or not model.abilities.parts:
        raise BagDataError(f"{type(model).__name__} has no answers about parts; ask it about bags and instances.")
    parts = bags.by_part()
    probability = positive_proba(model.predict_part_proba(bags, **given_argument(model, given)), model.classes_)
    whole = {"bag": list(parts.group), "part": list(parts.ids), "size": parts.sizes}
    return as_kind(pd.DataFrame(whole | _by_label({"probability": probability}, labels)), bags.frame_kind)


def bag_table(model: Any, bags: Bags, labels: Sequence[str] = (), *, given: Any = None) -> Any:
    """bag, size, probability, prediction (the more probable class); with several labels one set of each.

    Models that can tell the fraction of positives add their expectation and the ends of its 90 % interval: fraction,
    fraction_low, fraction_high. ``given`` are labels of the bags; the fractions do not know of them.
    """
    asked = given_argument(model, given)
    if model.of_classes:
        return as_kind(_class_table(model, bags, asked), bags.frame_kind)
    probability = positive_proba(model.predict_proba(bags, **asked), model.classes_)
    classes = model.classes_[0] if np.ndim(model.classes_) == 2 else model.classes_
    columns = {"probability": probability, "prediction": np.where(probability > 0.5, classes[1], classes[0])}
    if model.abilities.fractions:
        columns |= dict(zip(("fraction", "fraction_low", "fraction_high"), model.predict_fraction(bags), strict=True))
    whole = {"bag": list(bags.ids), "size": bags.sizes} | _by_label(columns, labels)
    return as_kind(pd.DataFrame(whole), bags.frame_kind)


def _class_table(model: Any, bags: Bags, asked: dict[str, Any]) -> pd.DataFrame:
    probability = model.predict_proba(bags, **asked)
    predicted = {"prediction": model.classes_[probability.argmax(axis=1)]}
    names = [str(name) for name in model.classes_]
    shares = _by_label({"probability": probability}, names)
    return pd.DataFrame({"bag": list(bags.ids), "size": bags.sizes} | predicted | shares)


def _by_label(columns: dict[str, NDArray[Any]], labels: Sequence[str]) -> dict[str, NDArray[Any]]:
    """(n, K) arrays as columns called ``name_label``, those of one label together; (n,) arrays as they are."""
    n_labels = next(iter(columns.values())).shape[1:]
    if not n_labels:
        return columns
    names = list(labels) or [str(number) for number in range(*n_labels)]
    return {f"{name}_{label}": table[:, k] for k, label in enumerate(names) for name, table in columns.items()}
