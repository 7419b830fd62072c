"""What bags carry beside their features: the part that each instance belongs to, and columns that describe it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._validation import levels, shorten, texts, unique_ids
from bagwise.exceptions import BagDataError

Ints = NDArray[np.int64]
_NUMBERS = "biufmM"  # kinds of arrays that are kept as they are; all others are kept as text


class Meta(Mapping[str, NDArray[Any]]):
    """Columns that describe instances (file, position, text), one entry per row; numbers, times or text."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], n_rows: int) -> None:
        self._columns = dict(columns)
        self.n_rows = n_rows

    @classmethod
    def read(cls, given: Any, n_rows: int) -> Self | None:
        """From a frame or a mapping with one entry per row in every column; None where there is nothing."""
        if given is None:
            return None
        if not isinstance(given, Mapping | pd.DataFrame):
            raise BagDataError(f"meta: expected a frame, or a dict of columns by name, got {type(given).__name__}.")
        names = texts(given, "the name of a column of meta")
        columns = {name: _column(name, given[key], n_rows) for name, key in zip(names, given, strict=True)}
        return cls(columns, n_rows) if columns else None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Any:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def take(self, rows: Any) -> Self:
        """The same columns of some rows."""
        chosen = {name: values[rows] for name, values in self._columns.items()}
        return type(self)(chosen, len(next(iter(chosen.values()))))

    def to_frame(self) -> pd.DataFrame:
        """A frame of its own that may be changed."""
        return pd.DataFrame(self._columns, copy=True)

    def describe(self, row: int) -> str:
        """One row for reading: "file a.png, x 12, y 40"."""
        return ", ".join(f"{name} {_short(values[row])}" for name, values in self._columns.items())

    # ------------------------------------------------------------ files

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for an archive: numbers as they are, text as levels and their numbers."""
        arrays: dict[str, NDArray[Any]] = {"meta": np.array(list(self), dtype=str)}
        for number, values in enumerate(self._columns.values()):
            arrays |= coded(f"meta_{number}", values)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> Self | None:
        """What ``to_arrays`` made, checked."""
        if "meta" not in arrays:
            return None
        names = texts(arrays["meta"], "the name of a column of meta")
        return cls.read({name: decoded(f"meta_{k}", arrays) for k, name in enumerate(names)}, n_rows)


def joined_meta(parts: Sequence[Meta | None]) -> Meta | None:
    """The rows of several, one after the other; all must have the same columns."""
    given = [part for part in parts if part is not None]
    if not given:
        return None
    names = list(given[0])
    if len(given) < len(parts) or any(set(part) != set(names) for part in given):
        found = sorted({name for part in given for name in part})
        raise BagDataError(f"meta: every part needs the same columns; some lack one of {shorten(found)}.")
    columns = {name: _stacked([part[name] for part in given]) for name in names}
    return Meta(columns, sum(part.n_rows for part in given))


def _stacked(values: list[NDArray[Any]]) -> NDArray[Any]:
    alike = len({array.dtype.kind in _NUMBERS for array in values}) == 1
    return np.concatenate(values if alike else [_as_texts(array) for array in values])


def _column(name: str, given: Any, n_rows: int) -> NDArray[Any]:
    values = np.asarray(given)
    if values.shape != (n_rows,):
        raise BagDataError(
            f"meta: column {name!r} needs one entry per instance, shape ({n_rows},), got shape {values.shape}."
        )
    kept = values if values.dtype.kind in _NUMBERS else _as_texts(values)
    kept = kept.view()
    kept.flags.writeable = False
    return kept


def _as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Entries as text, empty where nothing is; equal ones share their memory."""
    codes, found = levels(values.astype(object), "meta")
    words = np.array(["", *texts(found, "an entry of meta")], dtype=object)
    kept: NDArray[Any] = words[codes + 1]
    return kept


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


# ---------------------------------------------------------------- one after the other


def joined(parts: Sequence[NDArray[Any] | None], lengths: Sequence[int]) -> NDArray[Any] | None:
    """Numbers per instance, NaN where some bags have none; None where no bags have any."""
    if all(values is None for values in parts):
        return None
    pairs = zip(parts, lengths, strict=True)
    return np.concatenate([np.full(n, np.nan) if values is None else values for values, n in pairs])


def joined_parts(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Keys of parts; all bags have parts, or none has."""
    given = [values for values in parts if values is not None]
    if given and len(given) < len(parts):
        raise BagDataError("part: some of these bags have parts and others have none; give all of them parts.")
    return np.concatenate(given) if given else None


# ---------------------------------------------------------------- parts


def part_keys(part: Any, codes: Ints, ids: Sequence[str]) -> tuple[NDArray[Any], Ints] | None:
    """The key of every instance's part as text, and its number by first appearance; a part lies in one bag only."""
    if part is None:
        return None
    keys = np.asarray(part, dtype=object)
    if keys.shape != codes.shape:
        raise BagDataError(f"part: expected one key per row of X ({len(codes)} rows), got shape {keys.shape}.")
    missing = pd.isna(keys)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise BagDataError(f"part: the key of row {row} is missing; give every instance a part, or no part at all.")
    numbers, found = levels(keys, "part")
    names = np.array(unique_ids(found), dtype=object)
    lowest, highest = np.full(len(names), len(ids)), np.full(len(names), -1)
    np.minimum.at(lowest, numbers, codes)
    np.maximum.at(highest, numbers, codes)
    torn = np.flatnonzero(lowest != highest)
    if len(torn):
        first = int(torn[0])
        raise BagDataError(
            f"part {names[first]!r} lies in two bags, {ids[lowest[first]]!r} and {ids[highest[first]]!r}; a part "
            "belongs to one bag. Give parts names of their own, for example by putting the bag before them."
        )
    return names[numbers], numbers


def parts_in_order(part: Any, offsets: Ints, ids: Sequence[str]) -> NDArray[Any] | None:
    """The key of every instance's part, where rows cannot be moved: those of a part must stand together."""
    found = part_keys(part, np.repeat(np.arange(len(ids)), np.diff(offsets)), ids)
    if found is None:
        return None
    keys, numbers = found
    starts = starts_of_parts(keys, offsets)[:-1]
    again = np.flatnonzero(pd.Series(numbers[starts]).duplicated())
    if len(again):
        row = int(starts[again[0]])
        raise BagDataError(
            f"the rows of part {keys[row]!r} do not stand together: it goes on in row {row}, after another part. Bags "
            "that stay in their files need the rows of a part one after the other; sort them once."
        )
    return keys


def starts_of_parts(part: NDArray[Any], offsets: Ints) -> Ints:
    """Where each part begins, and the number of rows at the end; the rows of a part stand together."""
    begins = np.zeros(len(part) + 1, dtype=bool)
    begins[offsets] = True
    begins[1:-1] |= part[1:] != part[:-1]
    return np.flatnonzero(begins).astype(np.int64)


def checked_group(keys: Iterable[Any], n_bags: int) -> tuple[str, ...]:
    """One key per bag of what may not be torn apart by a split."""
    listed = list(keys)
    if len(listed) != n_bags:
        raise BagDataError(f"group: expected one key per bag ({n_bags}), got {len(listed)}.")
    if pd.isna(np.array(listed, dtype=object)).any():
        raise BagDataError("group: a key is missing; every bag needs one (its own id where it stands alone).")
    return texts(listed, "group")


# ---------------------------------------------------------------- text in archives


def coded(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Numbers as one array; text as its levels and the number of each entry's level."""
    if values.dtype.kind in _NUMBERS:
        return {name: values}
    numbers, found = levels(values, name)
    return {f"{name}_codes": numbers.astype(np.int64), f"{name}_levels": np.array(found, dtype=str)}


def decoded(name: str, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """What ``coded`` made."""
    if name in arrays:
        return arrays[name]
    found = np.array(arrays[f"{name}_levels"].tolist(), dtype=object)
    values: NDArray[Any] = found[arrays[f"{name}_codes"]]
    return values
