"""Files opened as bags: where each bag begins, what stands beside the features; the features themselves stay unread."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise.exceptions import BagDataError
from bagwise.sources.arrays import NpyRows, SafetensorsRows, array_of, tensor_of
from bagwise.sources.parquet import ParquetRows, common_schema, opened_parquet, parquet_files
from bagwise.sources.rows import Owners, RowSource, StoredRows

Ints = NDArray[np.int64]

_ROWS = 2**17  # whose keys and labels are looked at together
SUFFIXES = (".parquet", ".npy", ".safetensors")


class Wanted(NamedTuple):
    """Which columns (or arrays) say what."""

    bag: Any
    features: list[str] | None
    labels: list[Any]
    instance_labels: list[Any]
    known: Any
    ignore: list[str]

    def beside(self) -> list[Any]:
        """Everything that is named and no feature."""
        known = [] if self.known is None else [self.known]
        return [self.bag, *self.labels, *self.instance_labels, *known]


class OpenedBags(NamedTuple):
    """What was found; labels are one per bag, the other columns one per row."""

    X: StoredRows
    offsets: Ints
    ids: tuple[str, ...]
    feature_names: tuple[str, ...] | None
    labels: list[NDArray[Any]]
    instance_labels: list[NDArray[Any]]
    known: NDArray[np.float64] | None


def open_bags(path: Any, wanted: Wanted) -> OpenedBags:
    """Open a file (or files) by its name."""
    first = parquet_files(path)[0]
    suffix = first.suffix.lower()
    if suffix == ".parquet":
        return _open_parquet(path, wanted)
    if suffix in (".npy", ".safetensors"):
        return _open_array(Path(path), wanted)
    raise BagDataError(
        f"{path}: bags can stay in files whose names end in {', '.join(SUFFIXES)}; read other tables with "
        "Bags.from_frame, or write them as Parquet."
    )


def stored(source: RowSource, ids: Sequence[str], offsets: Ints, names: Sequence[str] | None) -> StoredRows:
    """The rows of a source, whose bags lie one after the other."""
    if source.shape[0] != offsets[-1]:
        raise BagDataError(f"the sizes of the bags add up to {offsets[-1]} rows, but the source has {source.shape[0]}.")
    return StoredRows(source, Owners(ids, offsets), names)


# ---------------------------------------------------------------- runs of rows with the same key


class _Stretch(NamedTuple):
    """Some rows in the order of the table: where runs of the same key begin, and the columns beside the features."""

    starts: Ints
    ids: list[str]
    columns: dict[str, pd.Series]

    def label(self, name: str) -> NDArray[Any]:
        """One label per run."""
        sizes = np.diff(np.append(self.starts, len(self.columns[name])))
        return check.label_of_bags(self.columns[name], np.repeat(np.arange(len(self.ids)), sizes), self.ids)


class _Layout:
    """Bags as they come by, stretch after stretch; a bag may go on in the next one."""

    def __init__(self, where: Any, labels: Sequence[str], how_to_sort: str) -> None:
        self._where, self._names, self._how_to_sort = where, list(labels), how_to_sort
        self.ids: list[str] = []
        self.starts: list[int] = []
        self._numbers: dict[str, int] = {}
        self._labels: dict[str, list[NDArray[Any]]] = {name: [] for name in labels}
        self._last: dict[str, Any] = {}

    def add(self, stretch: _Stretch, first: int) -> None:
        """The next rows, from number ``first`` on."""
        goes_on = bool(self.ids) and bool(stretch.ids) and stretch.ids[0] == self.ids[-1]
        going_on = self.ids[-1] if goes_on else None
        for name, start in zip(stretch.ids[goes_on:], stretch.starts[goes_on:].tolist(), strict=True):
            if name in self._numbers:
                self._refuse(name, first + start)
            self._numbers[name] = len(self.ids)
            self.ids.append(name)
            self.starts.append(first + start)
        for name in self._names:
            self._add_label(name, stretch.label(name), going_on)

    def labels(self) -> list[NDArray[Any]]:
        """One array per label, one entry per bag."""
        return [np.concatenate(self._labels[name]) for name in self._names]

    def _add_label(self, name: str, values: NDArray[Any], going_on: str | None) -> None:
        """``going_on`` is the bag that these rows go on with, if they do."""
        if going_on is not None and not _same(values[0], self._last[name]):
            raise BagDataError(
                f"column {name!r}: the label of bag {going_on!r} varies inside the bag (found "
                f"{[self._last[name], values[0]]}); a bag label must be the same on every row of its bag. Labels of "
                "single instances go into instance_label."
            )
        self._labels[name].append(values[going_on is not None :])
        self._last[name] = values[-1]

    def _refuse(self, name: str, row: int) -> None:
        number = self._numbers[name]
        raise BagDataError(
            f"{self._where}: the rows of bag {name!r} do not stand together: the bag begins in row "
            f"{self.starts[number]} and goes on in row {row}, after another bag. Bags that stay in their files need "
            f"their rows one after the other. Sort them once: {self._how_to_sort}"
        )


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (bool(pd.isna(one)) and bool(pd.isna(other)))


def _runs(codes: Ints, names: Sequence[Any]) -> tuple[Ints, list[str]]:
    """Where runs of the same code begin, and the keys of the runs as text."""
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])) if len(codes) else np.empty(0, np.int64)
    texts = [check.key_text(name) for name in names]
    return starts, [texts[code] for code in codes[starts].tolist()]


# ---------------------------------------------------------------- Parquet


def _open_parquet(path: Any, wanted: Wanted) -> OpenedBags:
    paths = parquet_files(path)
    schema = common_schema(paths)
    check.check_named_columns(
        pd.DataFrame(columns=schema.names), [*wanted.beside(), *wanted.ignore], wanted.features or []
    )
    others = {*wanted.beside(), *wanted.ignore}
    columns = wanted.features or [name for name in schema.names if name not in others]
    if not columns:
        raise BagDataError(f"{paths[0]}: no column is left to be a feature.")
    source = ParquetRows(paths, columns, schema)
    place = paths[0] if len(paths) == 1 else paths[0].parent
    layout = _Layout(place, wanted.labels, f"bagwise sort {place} --bag {wanted.bag} --output SORTED.parquet")
    per_row = _PerRow(wanted)
    first = 0
    for stretch, n_rows in _stretches(paths, wanted):
        layout.add(stretch, first)
        per_row.add(stretch)
        first += n_rows
    if not layout.ids:
        raise BagDataError(f"{paths[0]}: the table has no rows.")
    offsets = np.array([*layout.starts, first], dtype=np.int64)
    ids = check.texts(layout.ids, "the id of a bag")
    names = tuple(columns)
    return OpenedBags(stored(source, ids, offsets, names), offsets, ids, names, layout.labels(), *per_row.found(first))


class _PerRow:
    """Columns with one entry per row, collected."""

    def __init__(self, wanted: Wanted) -> None:
        self._known, self._labels = wanted.known, wanted.instance_labels
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def add(self, stretch: _Stretch) -> None:
        for name in [*self._labels, *([] if self._known is None else [self._known])]:
            self._parts.setdefault(name, []).append(stretch.columns[name].to_numpy())

    def found(self, n_rows: int) -> tuple[list[NDArray[Any]], NDArray[np.float64] | None]:
        whole = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        known = None if self._known is None else check.known_labels(whole[self._known], n_rows)
        return [whole[name] for name in self._labels], known


def _stretches(paths: Sequence[Path], wanted: Wanted) -> Iterator[tuple[_Stretch, int]]:
    """Some rows after the others, with their number."""
    names, first = list(dict.fromkeys(wanted.beside())), 0
    for path in paths:
        file = opened_parquet(path, pre_buffer=False)
        for batch in file.iter_batches(_ROWS, columns=names, use_threads=False):
            if batch.num_rows:
                yield _stretch(pyarrow.Table.from_batches([batch]), wanted, path, first), batch.num_rows
            first += batch.num_rows


def _stretch(table: pyarrow.Table, wanted: Wanted, path: Path, first: int) -> _Stretch:
    keys = table.column(wanted.bag).combine_chunks()
    if keys.null_count:
        row = first + int(np.argmax(keys.is_null().to_numpy(zero_copy_only=False)))
        raise BagDataError(f"{path}: column {wanted.bag!r} is empty in row {row}; every instance must belong to a bag.")
    coded = keys if pyarrow.types.is_dictionary(keys.type) else keys.dictionary_encode()
    starts, ids = _runs(coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pandas().tolist())
    return _Stretch(starts, ids, {name: table.column(name).to_pandas() for name in wanted.beside()[1:]})


# ---------------------------------------------------------------- arrays


def _open_array(path: Path, wanted: Wanted) -> OpenedBags:
    if path.suffix.lower() == ".npy":
        source: RowSource = NpyRows(path)
        fetch = array_of
    else:
        source = SafetensorsRows(path, (wanted.features or ["X"])[0])

        def fetch(given: Any) -> NDArray[Any]:
            return tensor_of(path, given) if isinstance(given, str) else np.asarray(given)

    n_rows = source.shape[0]
    codes, ids = check.group_codes(fetch(wanted.bag), n_rows)
    starts, _ = _runs(codes, ids)
    layout = _Layout(path, (), "order = np.argsort(bag, kind='stable'), and write the rows X[order] and bag[order].")
    layout.add(_Stretch(starts, [ids[code] for code in codes[starts].tolist()], {}), 0)
    offsets = np.array([*layout.starts, n_rows], dtype=np.int64)
    labels = [_array_label(fetch(label), codes, ids) for label in wanted.labels]
    instance_labels = [_one_per_row(fetch(label), n_rows) for label in wanted.instance_labels]
    known = None if wanted.known is None else check.known_labels(fetch(wanted.known), n_rows)
    return OpenedBags(stored(source, ids, offsets, None), offsets, ids, None, labels, instance_labels, known)


def _array_label(values: NDArray[Any], codes: Ints, ids: Sequence[str]) -> NDArray[Any]:
    """Labels with one entry per bag as they are, those with one per row checked and shortened."""
    if values.shape[:1] == (len(ids),):
        return values
    return check.label_of_bags(pd.Series(_one_per_row(values, len(codes)), name="label"), codes, ids)


def _one_per_row(values: NDArray[Any], n_rows: int) -> NDArray[Any]:
    if values.shape != (n_rows,):
        raise BagDataError(f"expected one entry per row ({n_rows}), got an array of shape {values.shape}.")
    return values
