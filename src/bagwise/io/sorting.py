"""A Parquet table sorted once, on disk, so that the rows of every bag stand together.

Bags keep the order of their first rows, and rows their order within a bag. The table is dealt into pieces of some whole
bags each, which fit into memory; then each piece is sorted and written. So every row is read twice and written twice.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from bagwise._files import PathLike, check_writable, write_whole
from bagwise._validation import shorten
from bagwise.exceptions import BagDataError
from bagwise.sources.parquet import common_schema, opened_parquet, parquet_files

_PIECE_BYTES = 2**28
_MOST_PIECES = 500  # files that are open at once
_GROUP_ROWS = 2**16

Ints = NDArray[np.int64]


def sort_table(path: Any, bag: str, output: PathLike, piece_bytes: int = _PIECE_BYTES) -> int:
    """Write the rows of a Parquet file (or a folder of them) bag by bag; returns the number of bags.

    ``piece_bytes`` is about what is held in memory. The output appears whole or not at all; pieces lie in the same
    folder meanwhile, in files without a name, which are gone with the process.
    """
    paths = parquet_files(path)
    schema = common_schema(paths)
    if bag not in schema.names:
        raise BagDataError(f"{paths[0]}: there is no column {bag!r}; the table has {shorten(schema.names, 12)}.")
    check_writable(output)
    sizes = _sizes(paths, bag)
    if not sizes:
        raise BagDataError(f"{paths[0]}: the table has no rows.")
    piece_of = _pieces(sizes, _row_bytes(paths), piece_bytes)
    with ExitStack() as stack:
        folder = Path(output).resolve().parent
        pieces = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(max(piece_of.values()) + 1)]
        _deal(paths, bag, schema, piece_of, pieces)
        write_whole(output, lambda stream: _written(pieces, bag, schema, list(sizes), stream))
    return len(sizes)


def _row_groups(paths: list[Path], columns: list[str]) -> Iterator[pyarrow.Table]:
    for path in paths:
        file = opened_parquet(path, pre_buffer=False)
        for batch in file.iter_batches(_GROUP_ROWS, columns=columns, use_threads=False):
            yield pyarrow.Table.from_batches([batch])


def _sizes(paths: list[Path], bag: str) -> dict[Any, int]:
    """The keys by first appearance, with their numbers of rows."""
    sizes: dict[Any, int] = {}
    first = 0
    for table in _row_groups(paths, [bag]):
        keys = table.column(bag).to_pandas()
        if keys.isna().any():
            raise BagDataError(
                f"{paths[0]}: column {bag!r} is empty in row {first + int(keys.isna().argmax())}; every instance must "
                "belong to a bag."
            )
        first += len(keys)
        for key, count in keys.value_counts(sort=False).items():
            sizes[key] = sizes.get(key, 0) + int(count)
    return sizes


def _row_bytes(paths: list[Path]) -> float:
    """Bytes of a row in memory, about."""
    files = [opened_parquet(path).metadata for path in paths]
    groups = [file.row_group(number) for file in files for number in range(file.num_row_groups)]
    rows = sum(int(group.num_rows) for group in groups)
    packed = sum(int(group.total_byte_size) for group in groups)
    return max(1.0, 8.0 * int(files[0].num_columns), packed / max(1, rows))


def _pieces(sizes: dict[Any, int], row_bytes: float, piece_bytes: int) -> dict[Any, int]:
    """The piece of every key: bags in their order, as many as fit."""
    ends = np.cumsum(list(sizes.values())) * row_bytes
    count = min(_MOST_PIECES, max(1, int(np.ceil(ends[-1] / piece_bytes))))
    numbers = np.minimum((ends / ends[-1] * count).astype(np.int64), count - 1)
    return dict(zip(sizes, numbers.tolist(), strict=True))


def _deal(
    paths: list[Path], bag: str, schema: pyarrow.Schema, piece_of: dict[Any, int], pieces: Sequence[IO[bytes]]
) -> None:
    """Write every row to its piece, in the order in which they come."""
    with ExitStack() as stack:
        writers = [stack.enter_context(pyarrow.parquet.ParquetWriter(piece, schema)) for piece in pieces]
        for table in _row_groups(paths, schema.names):
            numbers = table.column(bag).to_pandas().map(piece_of).to_numpy()
            for number in np.unique(numbers).tolist():
                writers[number].write_table(table.take(np.flatnonzero(numbers == number)).cast(schema))


def _written(pieces: Sequence[IO[bytes]], bag: str, schema: pyarrow.Schema, keys: list[Any], stream: IO[bytes]) -> None:
    place = pd.Series(np.arange(len(keys)), index=pd.Index(keys))
    with pyarrow.parquet.ParquetWriter(stream, schema) as writer:
        for piece in pieces:
            table = pyarrow.parquet.ParquetFile(piece).read(use_threads=False)
            order = np.argsort(table.column(bag).to_pandas().map(place).to_numpy(), kind="stable")
            writer.write_table(table.take(order).cast(schema), row_group_size=_GROUP_ROWS)
            piece.truncate(0)
