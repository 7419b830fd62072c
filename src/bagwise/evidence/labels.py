"""Binary bag labels: plain-array y in, numbers and class names out."""

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bagwise._validation import shorten
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user


@dataclass(frozen=True)
class Labels:
    """Binary bag labels, one column per question asked."""

    values: NDArray[np.float64]  # (B, K) of 0, 1 and NaN (missing: the bag states nothing)
    classes: NDArray[Any]  # the two class values, the positive one second
    names: tuple[str, ...] | None  # of the columns, where y came as a table with several

    @property
    def several(self) -> bool:
        """Whether y had one column per label."""
        return self.names is not None


def read_labels(y: Any, bags: Bags, *, keyed: bool, may_be_empty: bool = True, alone: bool = True) -> Labels:
    """Labels of the bags from an array, or (``keyed``: the ids are the user's own) a dict, Series or frame by id.

    Without any label a model of bags falls back on its prior, with a warning; where ``may_be_empty`` is false (a plain
    2-D array, ordinary classification) that is an error, as everywhere in scikit-learn. There is no warning where the
    labels are not ``alone``, but instances are known besides.
    """
    names = tuple(str(name) for name in y.columns) if isinstance(y, pd.DataFrame) else None
    array = label_array(y, bags, keyed=keyed)
    if array.ndim == 2 and array.shape[1] > 1:
        values = _zero_one_columns(array, bags)
        labels = Labels(values, np.array([0, 1]), names or tuple(f"label_{k}" for k in range(array.shape[1])))
    else:
        labels = _one_column(column_or_1d(array, warn=array.ndim == 2))
    if not may_be_empty and np.isnan(labels.values).all():
        raise BagDataError("Input y contains NaN only: there is no label to learn from.")
    if alone:
        _warn_if_one_sided(labels)
    return labels


def label_array(y: Any, bags: Bags, *, keyed: bool) -> NDArray[Any]:
    """y as an array (B,) or (B, K) in the order of the bags, as ``read_labels`` takes it."""
    if y is None:
        raise BagDataError("requires y to be passed, but the target y is None: give one label per bag.")
    if isinstance(y, Mapping) or (keyed and isinstance(y, pd.Series | pd.DataFrame)):
        return bags.align(y)
    try:
        array = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    except ValueError as error:
        raise BagDataError(f"y: expected one label per bag, or K labels for every bag ({error}).") from None
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise BagDataError(f"y: expected one label per bag, shape (B,) or (B, K), got shape {array.shape}.")
    if array.dtype.kind == "c":
        raise BagDataError("y: Complex data not supported; labels are real numbers or text.")
    if array.shape[0] != len(bags):
        raise BagDataError(
            f"y has {array.shape[0]} entries, but there are {len(bags)} bags; give one label per bag "
            "in the order of bags.ids (NaN where it is missing)."
        )
    return array


def _one_column(array: NDArray[Any]) -> Labels:
    missing = pd.isna(array)
    seen = _plain(array[~missing])
    if seen.dtype.kind == "f" and np.isinf(seen).any():
        raise BagDataError("Input y contains infinity or a value too large for dtype('float64').")
    if len(seen):
        _check_classes(seen)
    classes = _two_classes(np.unique(seen))
    values = np.full(len(array), np.nan)
    values[~missing] = seen == classes[1]
    return Labels(values[:, None], classes, None)


def _plain(seen: NDArray[Any]) -> NDArray[Any]:
    """Objects that are all numbers, or all text, as an ordinary array."""
    alike = all(isinstance(value, numbers.Number) for value in seen) or all(isinstance(value, str) for value in seen)
    return np.array(seen.tolist()) if seen.dtype.kind == "O" and alike and len(seen) else seen


def _check_classes(seen: NDArray[Any]) -> None:
    try:
        check_classification_targets(seen)
    except (ValueError, TypeError) as error:
        raise BagDataError(
            f"y: {error} Expected two class values (numbers or text, not both), one label per bag; found "
            f"{shorten(list(dict.fromkeys(map(str, seen))))}."
        ) from None


def _two_classes(found: NDArray[Any]) -> NDArray[Any]:
    if len(found) > 2:
        raise BagDataError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"{len(found)} classes {shorten(found)} in one column. For several labels per bag give y as a (B, K) array "
            "of 0/1; for one class out of many (or a set of candidates) use "
            "BagGP(evidence='class') (or 'candidates'), or MIPLGP."
        )
    if len(found) == 2:
        return found
    if len(found) == 0:
        return np.array([0, 1])
    for coding in (np.array([False, True]), np.array([0, 1]), np.array([-1, 1])):
        if found[0] in coding and (found.dtype.kind == "b") == (coding.dtype.kind == "b"):
            return coding.astype(found.dtype)
    raise BagDataError(
        f"y holds the single class {found[0]!r}, and nothing says whether it is the positive one; "
        "code the labels as 0 (negative) and 1 (positive)."
    )


def _zero_one_columns(array: NDArray[Any], bags: Bags) -> NDArray[np.float64]:
    missing = pd.isna(array)
    try:
        values = np.where(missing, np.nan, array).astype(np.float64)
    except (TypeError, ValueError):
        raise BagDataError("y with several columns must hold 0, 1 or NaN (missing) only; found text.") from None
    wrong = ~(missing | (values == 0) | (values == 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise BagDataError(
            f"y with several columns must hold 0, 1 or NaN (missing) only; bag {bags.ids[row]!r}, column {column} "
            f"holds {array[row, column]!r}. Unknown label type: for one class out of many in one column use "
            "BagGP(evidence='class'), or MIPLGP."
        )
    return values


def _warn_if_one_sided(labels: Labels) -> None:
    for column, values in enumerate(labels.values.T):
        seen = np.unique(values[~np.isnan(values)])
        name = f" of {labels.names[column]!r}" if labels.names is not None else ""
        if len(seen) == 0:
            warn_user(
                f"every bag label{name} is missing: the model can only answer with its prior.",
                BagDataWarning,
            )
        elif len(seen) == 1:
            warn_user(
                f"only one class, {labels.classes[int(seen[0])]}, is among the bag labels{name}: the model cannot "
                "learn to tell it from the other.",
                BagDataWarning,
            )
