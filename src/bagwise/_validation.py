"""Checks of user input and the error messages about it: columns, groups, ids, numbers (tables: ``_matrices.py``)."""

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from bagwise._text import shorten as shorten
from bagwise._text import visible as visible
from bagwise.exceptions import BagDataError

_BYTES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
Ints = NDArray[np.int64]


# ---------------------------------------------------------------- columns


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


def check_feature_names(estimator: Any, n_features: int, names: Sequence[str] | None, *, reset: bool) -> None:
    """Remember the columns of a fit (``reset``), or insist on the same ones, in scikit-learn's words and attributes."""
    probe = np.empty((1, n_features)) if names is None else pd.DataFrame(columns=list(names))
    try:
        validate_data(estimator, probe, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise BagDataError(f"{str(error).strip()}\nGive the same columns as in fit, in the same order.") from None


def feature_names(estimator: Any) -> Sequence[str] | None:
    """Names of the columns of a fit; scikit-learn leaves the attribute out where they had none."""
    names: Sequence[str] | None = getattr(estimator, "feature_names_in_", None)
    return names


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


def label_of_bags(values: pd.Series, codes: Ints, ids: Sequence[str], what: str = "label") -> NDArray[Any]:
    """One label (or weight) per bag from a column with one entry per row; one that varies inside a bag is an error."""
    known, classes = levels(values, f"column {values.name!r}")
    lowest = np.full(len(ids), len(classes), dtype=np.int64)
    highest = np.full(len(ids), -1, dtype=np.int64)
    np.minimum.at(lowest, codes, known)
    np.maximum.at(highest, codes, known)
    varying = np.flatnonzero(lowest != highest)
    if len(varying):
        bag = int(varying[0])
        seen = values[codes == bag].unique()[:5].tolist()
        hint = " Labels of single instances go into instance_label." if what == "label" else ""
        raise BagDataError(
            f"column {values.name!r}: the {what} of bag {ids[bag]!r} varies inside the bag (found {seen}); a bag "
            f"{what} must be the same on every row of its bag.{hint}"
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


def is_whole(value: Any) -> bool:
    """Whether a value out of a file is a whole number that an array can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


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
