"""Every check of user input and every error message about it."""

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from bagwise._text import shorten as shorten
from bagwise._text import visible as visible
from bagwise.exceptions import BagDataError
from bagwise.sources.rows import StoredRows

MOST_COLUMNS = 2**24  # of a sparse matrix: 128 MB for one number each
_BYTES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
Matrix = Any  # a 2-D float array or a scipy.sparse CSR matrix
Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


# ---------------------------------------------------------------- feature matrices


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


def check_named_columns(frame: pd.DataFrame, named: Sequence[str], features: Sequence[str]) -> None:
    """Every column is there, and none is a feature that was named as something else (a label among them would leak)."""
    missing = [name for name in [*named, *features] if name not in frame.columns]
    if missing:
        raise BagDataError(f"there is no column {shorten(missing)}; the table has {shorten(frame.columns, 12)}.")
    twice = [name for name in features if name in named]
    if twice:
        raise BagDataError(
            f"column {shorten(twice)} is among the features and named as bag, label or ignored; choose one."
        )


def column_name(column: int, names: Sequence[str] | None) -> str:
    """A column for an error message: by its name, or by its number."""
    return f"column {names[column]!r}" if names is not None else f"column {column}"


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


def check_feature_names(estimator: Any, n_features: int, names: Sequence[str] | None, *, reset: bool) -> None:
    """Remember the columns of a fit (``reset``), or insist on the same ones, in scikit-learn's words and attributes."""
    probe = np.empty((1, n_features)) if names is None else pd.DataFrame(columns=list(names))
    try:
        validate_data(estimator, probe, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise BagDataError(f"{str(error).strip()}\nGive the same columns as in fit, in the same order.") from None


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
    codes, uniques = levels(keys, "groups")
    return codes.astype(np.int64), unique_ids(uniques)


def levels(values: Any, what: str) -> tuple[Ints, Any]:
    """The number of every value among the different ones (-1 where it is missing), and these by first appearance."""
    try:
        codes, uniques = pd.factorize(values)
    except TypeError:
        check_hashable(values, what)
        raise
    return codes, uniques


def check_hashable(values: Iterable[Any], what: str) -> None:
    """Values that can be told apart: numbers, text, tuples of these; never a list or a dict."""
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise BagDataError(
                f"{what}: found {value!r:.60}, a {type(value).__name__}; expected numbers or text."
            ) from None


def unique_ids(keys: Iterable[Hashable]) -> tuple[str, ...]:
    """The keys as strings, refusing two keys that read the same (1 and "1") and a key that is missing."""
    listed = list(keys)
    check_hashable(listed, "the ids of the bags")
    if any(key is None or key is pd.NA or key != key for key in listed):
        raise BagDataError("the id of a bag is missing (None or NaN); every bag needs an id.")
    ids = texts((key_text(key) for key in listed), "the id of a bag")
    if len(set(ids)) < len(ids):
        repeated = [name for name, count in pd.Series(ids).value_counts().items() if count > 1]
        raise BagDataError(f"two different bags would both be called {shorten(repeated)}; make the ids unique as text.")
    return ids


def texts(names: Iterable[Any], what: str) -> tuple[str, ...]:
    """Names as strings that every file can hold."""
    found = tuple(str(name) for name in names)
    for name in found:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise BagDataError(f"{what} is {name!r}, which is not text in any language (a lone surrogate).") from None
    return found


def check_layout(offsets: NDArray[Any], rows: NDArray[Any], n_bags: int, n_rows: int) -> None:
    """Offsets that cut ``n_rows`` rows into ``n_bags`` bags, none of them empty, and one original position per row."""
    whole = offsets.dtype.kind in "iu" and rows.dtype.kind in "iu"
    if not whole or offsets.shape != (n_bags + 1,) or rows.shape != (n_rows,):
        raise BagDataError(f"offsets and rows do not describe {n_bags} bags of {n_rows} rows")
    if offsets[0] != 0 or offsets[-1] != n_rows or (np.diff(offsets.astype(np.int64)) <= 0).any():
        raise BagDataError(f"the offsets do not cut {n_rows} rows into {n_bags} bags")


def known_labels(known: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Known instance labels: one of 0, 1, NaN per row."""
    if known is None:
        return None
    given = np.asarray(known)
    try:
        values = np.where(pd.isna(given), np.nan, given).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BagDataError(f"known: expected 0, 1 or NaN for every instance ({error}).") from None
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
    keys, values = _keyed(y)
    names = [key_text(key) for key in keys]
    position = {name: number for number, name in enumerate(names)}
    if len(position) < len(names):
        repeated = pd.Series(names)[pd.Series(names).duplicated()]
        raise BagDataError(f"the labels name bag {shorten(repeated.unique())} more than once; give one entry per bag.")
    known = set(ids)
    missing, extra = [name for name in ids if name not in position], [name for name in names if name not in known]
    if missing or extra:
        parts = [f"no entry for bag {shorten(missing)}"] if missing else []
        parts += [f"an entry for an unknown bag {shorten(extra)}"] if extra else []
        raise BagDataError(
            f"the labels are keyed by bag id, but there is {' and '.join(parts)}. Give one entry per bag of "
            "bags.ids (NaN where the label is missing), or a plain array in that order."
        )
    array: NDArray[Any] = values[[position[name] for name in ids]]
    return array


def _keyed(y: Any) -> tuple[Iterable[Hashable], NDArray[Any]]:
    if isinstance(y, pd.Series | pd.DataFrame):
        return y.index, y.to_numpy()
    if isinstance(y, Mapping):
        return y.keys(), pd.Series(list(y.values()), dtype=object).to_numpy()
    raise BagDataError(f"align: expected a dict, Series or DataFrame keyed by bag id, got {type(y).__name__}.")


def label_of_bags(values: pd.Series, codes: Ints, ids: Sequence[str]) -> NDArray[Any]:
    """One label per bag from a column with one entry per row; a label that varies inside a bag is an error."""
    known, classes = levels(values, f"column {values.name!r}")
    lowest = np.full(len(ids), len(classes), dtype=np.int64)
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
    number = float(value) if isinstance(value, numbers.Real) and value is not True else math.nan
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise BagDataError(f"{name}={value!r}: expected a {'non-negative' if zero else 'positive'} number.")
    return number


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise BagDataError(f"{name}={value!r}: expected True or False.")
    return bool(value)


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BagDataError(f"{name}={value!r}: expected a whole number of at least {least}.")
    return int(value)


def check_bytes(name: str, value: Any) -> int | None:
    """A number of bytes, or text such as "4GB"; None as it is."""
    if value is None:
        return None
    text = str(value).strip().upper().removesuffix("B").removesuffix("I")
    unit = _BYTES.get(text[-1:], 1)
    try:
        number = unit * float(text[:-1] if text[-1:] in _BYTES else text)
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number >= 0):
        raise BagDataError(f"{name}={value!r}: expected a number of bytes, or text such as '500MB' or '4GB'.")
    return int(number)


def random_stream(random_state: Any) -> np.random.RandomState:
    """The stream of random numbers that scikit-learn's ``random_state`` names."""
    try:
        stream: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise BagDataError(
            f"random_state={random_state!r}: expected None, a whole number from 0 on, or a numpy RandomState."
        ) from None
    return stream


def check_option(name: str, value: Any, options: Sequence[str]) -> str:
    """One of the named options."""
    if not isinstance(value, str) or value not in options:
        raise BagDataError(f"{name}={value!r}: expected one of {', '.join(map(repr, options))}.")
    return value


def check_below(name: str, value: Any, limit: float) -> float:
    """A number of at least zero and below ``limit``."""
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if not 0.0 <= number < limit:
        raise BagDataError(f"{name}={value!r}: expected a number of at least 0 and below {limit:g}.")
    return number


def check_verbose(value: Any) -> None:
    """True, False or a whole number: whether to show progress."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value < 0:
        raise BagDataError(f"verbose={value!r}: expected True, False or a whole number of at least 0.")


def check_jitter(value: Any) -> None:
    """None for the usual jitter, or a share of the mean diagonal that leaves something of the matrix."""
    if value is not None:
        check_below("jitter", value, 1.0)
