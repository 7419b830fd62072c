"""Every check of user input and every error message about it."""

import math
import numbers
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise.exceptions import BagDataError

Matrix = Any  # a 2-D float array or a scipy.sparse CSR matrix
Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


def shorten(names: Iterable[object], limit: int = 5) -> str:
    """The first few names, quoted, for an error message."""
    listed = list(names)
    text = ", ".join(repr(str(name)) for name in listed[:limit])
    return f"{text}, … ({len(listed)} in all)" if len(listed) > limit else text


# ---------------------------------------------------------------- feature matrices


def feature_matrix(X: Any, feature_names: Sequence[str] | None = None) -> tuple[Matrix, tuple[str, ...] | None]:
    """Any two-dimensional table of numbers as a float array (or CSR matrix), with its column names if it has any."""
    names = None if feature_names is None else tuple(str(name) for name in feature_names)
    if hasattr(X, "detach"):  # a torch tensor
        X = X.detach().cpu().numpy()
    if not isinstance(X, pd.DataFrame) and hasattr(X, "to_pandas"):  # Arrow, polars
        X = X.to_pandas()
    if isinstance(X, pd.DataFrame):
        if names is None and all(isinstance(name, str) for name in X.columns):
            names = tuple(X.columns)
        X = _frame_values(X)
    X = _sparse_values(X) if scipy.sparse.issparse(X) else _dense_values(X)
    if names is not None and len(names) != X.shape[1]:
        raise BagDataError(f"{len(names)} feature names were given for {X.shape[1]} columns; give one name per column.")
    return X, names


def _frame_values(frame: pd.DataFrame) -> NDArray[Any]:
    bad = [name for name, kind in frame.dtypes.items() if not _is_numeric(kind)]
    if bad:
        raise BagDataError(
            f"column {shorten(bad)} is not numeric (found {frame[bad[0]].dtype}); "
            "encode it as numbers or leave it out of the features."
        )
    return frame.to_numpy(dtype=_float_type(np.result_type(*(_numpy_type(kind) for kind in frame.dtypes))))


def _is_numeric(kind: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(kind)) and not pd.api.types.is_complex_dtype(kind)


def _numpy_type(kind: Any) -> np.dtype[Any]:
    return kind if isinstance(kind, np.dtype) else np.dtype(float)


def _float_type(kind: np.dtype[Any]) -> type[np.floating[Any]]:
    return np.float32 if kind == np.float32 else np.float64


def _sparse_values(X: Any) -> Matrix:
    if X.dtype.kind == "c":
        raise BagDataError("Complex data not supported: the features must be real numbers.")
    return X.tocsr().astype(_float_type(X.dtype), copy=False)


def _dense_values(X: Any) -> Floats:
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise BagDataError("Complex data not supported: the features must be real numbers.")
    if array.ndim != 2:
        raise BagDataError(
            f"Expected 2D array of features (one row per instance, one column per feature), got {array.ndim}D array "
            f"of shape {array.shape} instead. Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) "
            "for one instance."
        )
    if array.dtype.kind not in "fiub":
        array = _parse_objects(array)
    return np.ascontiguousarray(array, dtype=_float_type(array.dtype))


def _parse_objects(array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except TypeError as error:
            raise TypeError(
                f"the features hold something that is not a number: argument must be a string or a "
                f"real number ({error})"
            ) from error
        except ValueError:
            pass
    for column in range(array.shape[1]):
        try:
            array[:, column].astype(np.float64)
        except ValueError as error:
            raise BagDataError(
                f"column {column} is not numeric ({error}); encode it as numbers or leave it out of the features."
            ) from None
    return array.astype(np.float64)


def check_finite(X: Matrix, ids: Sequence[str], index: Ints, rows: Ints, names: Sequence[str] | None) -> None:
    """Name the bag, the column and the row of the first NaN or infinite feature."""
    values = X.data if scipy.sparse.issparse(X) else X
    # A sum is finite unless some entry is not (or it overflows, which the second look sorts out); it needs no copy.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
            return
    row, column = _first_non_finite(X)
    value = "NaN" if math.isnan(X[row, column]) else "infinity"
    where = f"column {names[column]!r}" if names is not None else f"column {column}"
    raise BagDataError(
        f"Input X contains {value}: bag {ids[index[row]]!r}, {where}, row {rows[row]} of the table. bagwise needs "
        "finite features; drop that instance or fill it in, e.g. PerInstance(SimpleImputer()) in a pipeline."
    )


def _first_non_finite(X: Matrix) -> tuple[int, int]:
    if scipy.sparse.issparse(X):
        entries = X.tocoo()
        first = int(np.flatnonzero(~np.isfinite(entries.data))[0])
        return int(entries.row[first]), int(entries.col[first])
    row = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
    return row, int(np.flatnonzero(~np.isfinite(X[row]))[0])


def check_same_features(
    found: int, names: Sequence[str] | None, expected: int, known: Sequence[str] | None, model: str
) -> None:
    """Prediction needs the columns of the fit, in the same order."""
    if names is not None and known is not None and tuple(names) != tuple(known):
        missing, extra = [n for n in known if n not in names], [n for n in names if n not in known]
        detail = (
            "; ".join(
                part
                for part in (
                    f"missing {shorten(missing)}" if missing else "",
                    f"unexpected {shorten(extra)}" if extra else "",
                )
                if part
            )
            or "the same columns in another order"
        )
        raise BagDataError(
            "The feature names should match those that were passed during fit: "
            f"{detail}. Feature names must be in the same order as they were in fit."
        )
    if found != expected:
        raise BagDataError(
            f"X has {found} features, but {model} is expecting {expected} features as input: "
            "give the same columns as in fit, in the same order."
        )


# ---------------------------------------------------------------- groups, ids, offsets


def key_text(key: Hashable) -> str:
    """A group key as the string that names its bag."""
    return str(key)


def group_codes(groups: Any, n_rows: int) -> tuple[Ints, tuple[str, ...]]:
    """Number the bags by first appearance of their key."""
    if isinstance(groups, list | tuple):
        groups = pd.Series(groups, dtype=object)  # np.asarray would turn 1 beside "1" into two equal strings
    keys = np.asarray(groups.detach().cpu() if hasattr(groups, "detach") else groups)
    if keys.ndim != 1 or len(keys) != n_rows:
        found = f"shape {keys.shape}" if keys.ndim != 1 else f"{len(keys)} keys"
        raise BagDataError(f"groups: expected one key per row of X ({n_rows} rows), got {found}.")
    missing = pd.isna(keys)
    if missing.any():
        raise BagDataError(
            f"groups: the key of row {int(np.flatnonzero(missing)[0])} is missing; every instance must belong to a bag."
        )
    codes, uniques = pd.factorize(keys)
    return codes.astype(np.int64), unique_ids(uniques)


def unique_ids(keys: Iterable[Hashable]) -> tuple[str, ...]:
    """The keys as strings, refusing two keys that read the same (1 and "1")."""
    ids = tuple(key_text(key) for key in keys)
    if len(set(ids)) < len(ids):
        repeated = [name for name, count in pd.Series(ids).value_counts().items() if count > 1]
        raise BagDataError(f"two different bags would both be called {shorten(repeated)}; make the ids unique as text.")
    return ids


def known_labels(known: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Known instance labels: one of 0, 1, NaN per row."""
    if known is None:
        return None
    values = np.asarray(known, dtype=np.float64)
    if values.shape != (n_rows,):
        raise BagDataError(
            f"known: expected one entry (0, 1 or NaN) per instance, i.e. shape ({n_rows},), got shape {values.shape}."
        )
    wrong = ~(np.isnan(values) | (values == 0) | (values == 1))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise BagDataError(f"known: row {first} holds {values[first]!r}; an instance is known to be 0 or 1, or NaN.")
    return values


def aligned(y: Any, ids: Sequence[str]) -> NDArray[Any]:
    """A dict, Series or frame keyed by bag id as an array in the order of ``ids``."""
    keyed = pd.Series(y, dtype=object) if isinstance(y, dict) else y
    if not isinstance(keyed, pd.Series | pd.DataFrame):
        raise BagDataError(f"align: expected a dict, Series or DataFrame keyed by bag id, got {type(y).__name__}.")
    names = [key_text(key) for key in keyed.index]
    position = {name: number for number, name in enumerate(names)}
    if len(position) < len(names):
        repeated = pd.Series(names)[pd.Series(names).duplicated()]
        raise BagDataError(f"the labels name bag {shorten(repeated.unique())} more than once; give one entry per bag.")
    missing, extra = [i for i in ids if i not in position], [n for n in names if n not in set(ids)]
    if missing or extra:
        parts = [f"no entry for bag {shorten(missing)}"] * bool(missing) + [f"unknown bag {shorten(extra)}"] * bool(
            extra
        )
        raise BagDataError(
            f"the labels are keyed by bag id, but there is {' and '.join(parts)}. Give one entry per bag of "
            "bags.ids (NaN where the label is missing), or a plain array in that order."
        )
    array: NDArray[Any] = keyed.to_numpy()[[position[name] for name in ids]]
    return array


def label_of_bags(values: pd.Series, codes: Ints, ids: Sequence[str]) -> NDArray[Any]:
    """One label per bag from a column with one entry per row; a label that varies inside a bag is an error."""
    known, levels = pd.factorize(values, use_na_sentinel=True)
    lowest = np.full(len(ids), len(levels), dtype=np.int64)
    highest = np.full(len(ids), -1, dtype=np.int64)
    np.minimum.at(lowest, codes, known)
    np.maximum.at(highest, codes, known)
    varying = np.flatnonzero(lowest != highest)
    if len(varying):
        bag = int(varying[0])
        seen = values[codes == bag].unique()[:5].tolist()
        raise BagDataError(
            f"column {values.name!r}: the label of bag {ids[bag]!r} varies inside the bag (found {seen}); a bag label "
            "must be the same on every row of its bag. Labels of single instances go into instance_label."
        )
    first = np.unique(codes, return_index=True)[1]
    label: NDArray[Any] = values.to_numpy()[first]
    return label


# ---------------------------------------------------------------- scalars


def check_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """A finite number above zero (or at least zero)."""
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise BagDataError(f"{name}={value!r}: expected a {'non-negative' if zero else 'positive'} number.")
    return number


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BagDataError(f"{name}={value!r}: expected a whole number of at least {least}.")
    return int(value)


def check_option(name: str, value: Any, options: Sequence[str]) -> str:
    """One of the named options."""
    if not isinstance(value, str) or value not in options:
        raise BagDataError(f"{name}={value!r}: expected one of {', '.join(map(repr, options))}.")
    return value
