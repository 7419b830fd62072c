"""How much every bag counts: weights of bags, weights of classes, and bags repeated where nothing else is possible.

A weight w multiplies the log-likelihood of what a bag states: the bag counts as if it were there w times. Features
(their scale, the inducing inputs) are those of all bags, whatever their weights.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._validation import check_hashable, shorten
from bagwise.bags import Bags
from bagwise.evidence.labels import label_array
from bagwise.evidence.reading import joined_statement
from bagwise.exceptions import BagDataError

BALANCED = "balanced"

Floats = NDArray[np.float64]


def read_weights(sample_weight: Any, bags: Bags, *, keyed: bool) -> Floats | None:
    """One weight per bag in the order of the bags, from an array or (``keyed``) a dict or Series by id."""
    if sample_weight is None:
        return None
    by_id = isinstance(sample_weight, Mapping) or (keyed and isinstance(sample_weight, pd.Series))
    try:
        weights = np.array(bags.align(sample_weight) if by_id else sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BagDataError(f"sample_weight: expected one number per bag ({error}).") from None
    if weights.shape != (len(bags),):
        raise BagDataError(f"sample_weight: expected one weight per bag ({len(bags)}), got shape {weights.shape}.")
    wrong = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(wrong):
        bag = int(wrong[0])
        raise BagDataError(
            f"sample_weight of bag {bags.ids[bag]!r} is {weights[bag]:g}; a weight is a number of at least 0 (0 leaves "
            "the bag out)."
        )
    if not weights.any():
        raise BagDataError("sample_weight: every weight is zero, so that there is nothing to learn from.")
    return weights


def check_class_weight(class_weight: Any) -> None:
    """None, "balanced", or a dict with a positive number (or 0) for classes."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    numbers = list(class_weight.values()) if isinstance(class_weight, Mapping) else []
    try:
        sound = bool(numbers) and all(np.isfinite(float(number)) and float(number) >= 0 for number in numbers)
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise BagDataError(
            f"class_weight={class_weight!r}: expected None, 'balanced', or a dict with a number of at least 0 for each "
            "class, such as {0: 1, 1: 5}."
        )


def with_class_weight(
    weights: Floats | None, class_weight: Any, labels: Floats, classes: NDArray[Any]
) -> Floats | None:
    """Weights of bags times those of their classes; ``labels`` (B, K) of 0, 1 and NaN, whose bags keep their weight."""
    if class_weight is None:
        return weights
    if labels.shape[1] > 1:
        raise BagDataError(
            f"class_weight={class_weight!r}: y has {labels.shape[1]} label columns, and a bag has one weight for all "
            "of them; fit the columns one by one, or give sample_weight."
        )
    column, own = labels[:, 0], np.ones(len(labels)) if weights is None else weights
    if np.isnan(column).all():
        raise BagDataError(f"class_weight={class_weight!r}: is for labels, but no bag has a label.")
    factors = _factors(class_weight, column, classes, own)
    counted: Floats = own * np.where(np.isnan(column), 1.0, factors[np.nan_to_num(column).astype(int)])
    return counted


def _factors(class_weight: Any, column: Floats, classes: NDArray[Any], own: Floats) -> Floats:
    """The weights of both classes; "balanced": each class counts as much as the other, and all bags as before."""
    if isinstance(class_weight, str):
        counts = np.array([own[column == value].sum() for value in (0, 1)])
        seen = counts > 0
        return np.where(seen, counts.sum() / (max(int(seen.sum()), 1) * np.where(seen, counts, 1.0)), 1.0)
    check_hashable(list(class_weight), "class_weight")
    strange = [value for value in class_weight if value not in classes.tolist()]
    if strange:
        raise BagDataError(f"class_weight names {shorten(strange)}; the classes of y are {shorten(classes)}.")
    return np.array([float(class_weight.get(value, 1.0)) for value in classes.tolist()])


def repeated_by_weight(bags: Any, y: Any, checked: Bags, sample_weight: Any, name: str, why: str) -> tuple[Any, Any]:
    """Bags and what they state with every bag as often as its weight, a whole number; others are refused with ``why``.

    For models whose likelihood has no power that could be worked with.
    """
    weights = read_weights(sample_weight, checked, keyed=isinstance(bags, Bags))
    if weights is None:
        return bags, y
    broken = np.flatnonzero(weights != np.round(weights))
    if len(broken):
        bag = int(broken[0])
        raise BagDataError(
            f"sample_weight of bag {checked.ids[bag]!r} is {weights[bag]:g}, but {name} takes whole numbers only (it "
            f"puts the bag in so many times): {why}."
        )
    numbers = np.repeat(np.arange(len(checked)), weights.astype(np.int64))
    return checked[numbers], _statements_of(y, checked, numbers, keyed=isinstance(bags, Bags))


def _statements_of(y: Any, bags: Bags, numbers: NDArray[np.int64], *, keyed: bool) -> Any:
    """What some bags state, in any form that ``fit`` takes."""
    statement = joined_statement(y, bags, keyed)
    if statement is not None:
        return statement[numbers]
    if isinstance(y, pd.DataFrame):
        ordered = pd.DataFrame(bags.align(y), columns=y.columns) if keyed else y
        return ordered.iloc[numbers].reset_index(drop=True)
    if isinstance(y, list | tuple) and len(y) == len(bags):  # sets of candidates are no array
        return [y[number] for number in numbers]
    return label_array(y, bags, keyed=keyed)[numbers]
