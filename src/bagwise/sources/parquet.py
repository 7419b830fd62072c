"""Rows in Parquet files, read batch by batch, each inside of one row group.

``ParquetFile`` is used and never ``Dataset.to_batches``, whose memory grows with the number of rows.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from bagwise._validation import shorten
from bagwise.exceptions import BagDataError
from bagwise.sources.ahead import one_ahead
from bagwise.sources.arrays import Stamp

_BATCH_ENTRIES = 2**22  # numbers of a batch: 32 MB in double precision
_TILE_ENTRIES = 2**17  # numbers that columns are turned into rows at a time
_INDEX = "__index_level_"


class _Group(NamedTuple):
    file: int
    number: int  # of the row group in its file
    start: int  # of its rows among those of all files
    size: int


class _Decoded(NamedTuple):
    """A batch as Arrow has it, and where it stands."""

    group: int
    start: int  # among all rows
    columns: pyarrow.RecordBatch


class _Cursor(NamedTuple):
    """A batch that was read last, and those that follow it."""

    group: int
    start: int  # of the batch among all rows
    batch: NDArray[Any]
    rest: Iterator[_Decoded]

    @property
    def stop(self) -> int:
        """Where the next batch begins."""
        return self.start + len(self.batch)


def parquet_files(path: Any) -> list[Path]:
    """One file, several, or all of a folder in the order of their names."""
    if isinstance(path, list | tuple):
        return [Path(each) for each in path]
    place = Path(path)
    if not place.is_dir():
        return [place]
    found = sorted(each for each in place.iterdir() if each.name.lower().endswith(".parquet"))
    if not found:
        raise BagDataError(f"{path}: the folder holds no file whose name ends in .parquet.")
    return found


def opened_parquet(path: Path, **settings: Any) -> pyarrow.parquet.ParquetFile:
    """A Parquet file; what is none is an error that names it."""
    try:
        return pyarrow.parquet.ParquetFile(path, **settings)
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise BagDataError(f"{path}: cannot be read as a Parquet table ({error}); is it complete?") from error


def common_schema(paths: Sequence[Path]) -> pyarrow.Schema:
    """The columns of all files, without an index that only counts the rows; files that differ are an error."""
    schemas = [opened_parquet(path).schema_arrow for path in paths]
    for path, schema in zip(paths, schemas, strict=True):
        if schema.names != schemas[0].names or schema.types != schemas[0].types:
            raise BagDataError(f"{path}: its columns are not those of {paths[0]}; all files need the same columns.")
    names = [name for name in schemas[0].names if not name.startswith(_INDEX)]
    repeated = [name for name in names if schemas[0].names.count(name) > 1]
    if repeated:
        raise BagDataError(f"{paths[0]}: column {shorten(dict.fromkeys(repeated))} occurs twice; rename one of them.")
    return pyarrow.schema([schemas[0].field(name) for name in names])


class ParquetRows:
    """Numeric columns of one or many Parquet files as rows."""

    def __init__(self, paths: Sequence[Path], columns: Sequence[str], schema: pyarrow.Schema) -> None:
        self._columns = list(columns)
        self._stamps = [Stamp(path) for path in paths]
        self._groups = list(_row_groups(paths))
        self._starts = np.array([group.start for group in self._groups], dtype=np.int64)
        self.shape: tuple[int, int] = (sum(group.size for group in self._groups), len(self._columns))
        kinds = np.result_type(*(_number_type(schema.field(name), paths[0]) for name in columns))
        self.dtype = np.dtype(np.float32 if kinds == np.float32 else np.float64)
        self._cursor: _Cursor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cursor": None}  # an open file stays in its process

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows across batches, row groups and files."""
        out = np.empty((stop - start, len(self._columns)), self.dtype)
        place = start
        while place < stop:
            cursor = self._at(place)
            some = cursor.batch[place - cursor.start : stop - cursor.start]
            out[place - start : place - start + len(some)] = some
            place += len(some)
        return out

    def _at(self, row: int) -> _Cursor:
        """The batch that holds a row: the last one, one that follows it, or one of a row group read anew."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        self._stamps[self._groups[group].file].check()
        cursor, self._cursor = self._cursor, None  # what fails is not gone on with
        if cursor is None or row < cursor.start or not (group == cursor.group or row == cursor.stop):
            cursor = self._next(self._batches(group))
        while row >= cursor.stop:
            cursor = self._next(cursor.rest)
        self._cursor = cursor
        return cursor

    def _next(self, batches: Iterator[_Decoded]) -> _Cursor:
        group, start, columns = next(batches)
        return _Cursor(group, start, self._numbers(columns), batches)

    def _batches(self, group: int) -> Iterator[_Decoded]:
        """Of a row group and of those after it; once a second one is asked for, the next is decoded meanwhile."""
        batches = self._decoded(group)
        yield next(batches)
        yield from one_ahead(batches)

    def _decoded(self, first: int) -> Iterator[_Decoded]:
        rows = max(1, _BATCH_ENTRIES // len(self._columns))
        for number, group in enumerate(self._groups[first:], first):
            file, start = opened_parquet(self._stamps[group.file].path, pre_buffer=False), group.start
            for batch in file.iter_batches(rows, row_groups=[group.number], columns=self._columns):
                if batch.num_rows:
                    yield _Decoded(number, start, batch)
                    start += batch.num_rows

    def _numbers(self, batch: pyarrow.RecordBatch) -> NDArray[Any]:
        """Column by column, of some rows at a time, which stay near the processor."""
        values = np.empty((batch.num_rows, len(self._columns)), self.dtype)
        columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self._columns]
        rows = max(1, _TILE_ENTRIES // len(self._columns))
        for start in range(0, batch.num_rows, rows):
            tile = values[start : start + rows]
            for place, column in enumerate(columns):
                tile[:, place] = column[start : start + rows]
        return values


def _row_groups(paths: Sequence[Path]) -> Iterator[_Group]:
    start = 0
    for file, path in enumerate(paths):
        metadata = opened_parquet(path).metadata
        for number in range(metadata.num_row_groups):
            size = metadata.row_group(number).num_rows
            if size:
                yield _Group(file, number, start, size)
            start += size


def _number_type(field: pyarrow.Field, path: Path) -> Any:
    kind = field.type
    numeric = pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind)
    if not numeric:
        raise BagDataError(
            f"{path}: column {field.name!r} is not numeric (found {kind}); encode it as numbers or leave it out of the "
            "features."
        )
    return np.dtype(kind.to_pandas_dtype())
