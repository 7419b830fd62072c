"""Tables of features: anything two-dimensional as a float array or a CSR matrix, checked."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise._validation import shorten, texts
from bagwise.exceptions import BagDataError
from bagwise.sources.rows import StoredRows

MOST_COLUMNS = 2**24  # of a sparse matrix: 128 MB for one number each
Matrix = Any  # a 2-D float array or a scipy.sparse CSR matrix
Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


def feature_matrix(X: Any, feature_names: Sequence[str] | None = None) -> tuple[Matrix, tuple[str, ...] | None]:
    """Any two-dimensional table of numbers as a float array (or CSR matrix), with its column names if it has any."""
    names = None if feature_names is None else tuple(feature_names)
    if isinstance(X, StoredRows):
        return X, names
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
    return X, None if names is None else texts(names, "the name of a feature")


def _frame_values(frame: pd.DataFrame) -> NDArray[Any]:
    bad = [(name, kind) for name, kind in frame.dtypes.items() if not _is_numeric(kind)]
    if bad:
        raise BagDataError(
            f"column {shorten(name for name, _ in bad)} is not numeric (found {bad[0][1]}); "
            "encode it as numbers or leave it out of the features."
        )
    if frame.shape[1] == 0:
        return np.empty(frame.shape)
    wanted = _float_type(np.result_type(*(_numpy_type(kind) for kind in frame.dtypes)))
    return frame.to_numpy(dtype=wanted, na_value=np.nan)


def _is_numeric(kind: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(kind)) and not pd.api.types.is_complex_dtype(kind)


def _numpy_type(kind: Any) -> np.dtype[Any]:
    return kind if isinstance(kind, np.dtype) else np.dtype(float)


def _float_type(kind: np.dtype[Any]) -> type[np.floating[Any]]:
    return np.float32 if kind == np.float32 else np.float64


def _sparse_values(X: Any) -> Matrix:
    if X.dtype.kind == "c":
        raise BagDataError("Complex data not supported: the features must be real numbers.")
    if X.ndim != 2:
        raise BagDataError(f"Expected 2D array of features, got a sparse {X.ndim}D array of shape {X.shape} instead.")
    if X.shape[1] > MOST_COLUMNS:
        raise BagDataError(
            f"the sparse table has {X.shape[1]:,} columns; there may be {MOST_COLUMNS:,}, because several numbers are "
            "kept for each of them. Select columns, or hash them into fewer."
        )
    matrix = X.tocsr().astype(_float_type(X.dtype), copy=False)
    if not matrix.has_canonical_format:  # the same entry stored in pieces: sums over the stored values would go wrong
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def stored_matrix(data: Any, indices: Any, indptr: Any, shape: Any) -> Matrix:
    """A CSR matrix from its parts in a file, of which nothing is taken for granted: scipy's own loops are in C."""
    whole = all(part.ndim == 1 and part.dtype.kind in "iu" for part in (indices, indptr, shape))
    if not whole or data.ndim != 1 or data.dtype.kind not in "biuf" or len(shape) != 2:
        raise BagDataError("indices, indptr and shape must hold whole numbers, and data numbers, in one dimension")
    n_rows, n_columns = (int(size) for size in shape)
    if n_rows < 0 or len(indptr) != n_rows + 1 or not 0 <= n_columns < 2**63 or len(data) != len(indices):
        raise BagDataError(f"the parts do not fit together, nor a shape of ({n_rows}, {n_columns})")
    starts, places = indptr.astype(np.int64), indices.astype(np.int64)
    if starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise BagDataError("indptr does not cut the entries into rows")
    if len(places) and not (places.min() >= 0 and places.max() < n_columns):
        raise BagDataError(f"indices point outside of {n_columns} columns")
    return scipy.sparse.csr_matrix((data, places, starts), shape=(n_rows, n_columns))


def _dense_values(X: Any) -> Floats:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise BagDataError(f"the features are not a table: its rows differ in length ({error}).") from None
    if array.dtype.kind == "c":
        raise BagDataError("Complex data not supported: the features must be real numbers.")
    if array.ndim != 2:
        raise BagDataError(
            f"Expected 2D array of features (one row per instance, one column per feature), got {array.ndim}D array "
            f"of shape {array.shape} instead. Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) "
            "for one instance, list(X) for a stack of bags."
        )
    if array.dtype.kind in "mM":
        raise BagDataError(f"the features are of type {array.dtype}, not numeric; encode times as numbers.")
    if array.dtype.kind not in "fiub":
        array = _parse_objects(array)
    return np.ascontiguousarray(array, dtype=_float_type(array.dtype))


def _parse_objects(array: NDArray[Any]) -> NDArray[np.float64]:
    for column in range(array.shape[1]):
        try:
            array[:, column].astype(np.float64)
        except TypeError as error:  # scikit-learn asks for this kind and these words
            raise TypeError(
                f"column {column} holds something that is not a number: argument must be a string or a real number "
                f"({error})"
            ) from None
        except ValueError as error:
            raise BagDataError(
                f"column {column} is not numeric ({error}); encode it as numbers or leave it out of the features."
            ) from None
    return array.astype(np.float64)


def stacked_rows(matrices: Sequence[Matrix]) -> Matrix:
    """Rows after rows; sparse as soon as some of them are."""
    sparse = any(map(scipy.sparse.issparse, matrices))
    return scipy.sparse.vstack(matrices).tocsr() if sparse else np.concatenate(matrices)


def check_not_empty(X: Matrix) -> None:
    """At least one row and one column."""
    for count, what in zip(X.shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise BagDataError(f"Found array with 0 {what} (shape={X.shape}) while a minimum of 1 is required.")


def check_same_columns(checked: Sequence[tuple[Matrix, tuple[str, ...] | None]], ids: Sequence[str]) -> None:
    """Matrices (with their column names) of bags that belong together."""
    first, expected = checked[0]
    for (matrix, names), bag in zip(checked, ids, strict=True):
        if matrix.shape[1] != first.shape[1]:
            raise BagDataError(
                f"bag {bag!r} has {matrix.shape[1]} features, bag {ids[0]!r} has {first.shape[1]}; "
                "every bag needs the same columns."
            )
        if names != expected:
            raise BagDataError(
                f"the columns of bag {bag!r} are not named as those of bag {ids[0]!r}; every bag needs the same "
                "columns in the same order."
            )


def column_name(column: int, names: Sequence[str] | None) -> str:
    """A column for an error message: by its name, or by its number."""
    return f"column {names[column]!r}" if names is not None else f"column {column}"


def column_number(column: Any, n_features: int, names: Sequence[str] | None) -> int:
    """The number of a column that a user names, or numbers."""
    if isinstance(column, str) and names is not None and column in names:
        return list(names).index(column)
    if isinstance(column, int | np.integer) and 0 <= column < n_features:
        return int(column)
    named = f", named {', '.join(names[:8])}{' …' if len(names) > 8 else ''}." if names else " without names."
    raise BagDataError(f"features: there is no column {column!r}; the bags have columns 0 to {n_features - 1}{named}")


def axis_name(column: int, names: Sequence[str] | None) -> str:
    """A column for a picture or a table: its name, or "feature 3"."""
    return f"feature {column}" if names is None else names[column]


def check_finite(X: Matrix, ids: Sequence[str], index: Ints, rows: Ints, names: Sequence[str] | None) -> None:
    """Name the bag, the column and the row of the first NaN or infinite feature."""
    values = X.data if scipy.sparse.issparse(X) else X
    # A sum is finite unless some entry is not (or it overflows, which the second look sorts out); it needs no copy.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
            return
    row, column = _first_non_finite(X)
    value = "NaN" if math.isnan(X[row, column]) else "infinity"
    where = column_name(column, names)
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
