"""Tables that are written part by part, so that none of them need be in memory as a whole."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import pandas as pd
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from bagwise._files import PathLike, write_whole
from bagwise.bags import Bags
from bagwise.gp.features import bag_slices
from bagwise.io.predictions import instance_table
from bagwise.io.tables import suffix_to_write, write_csv

_ROWS = 200_000  # of a part, about


def instance_tables(model: Any, bags: Bags, labels: Any = (), *, given: Any = None) -> Iterator[pd.DataFrame]:
    """The table of all instances in parts, some whole bags each; ``given`` are labels, an array or a frame."""
    rows = given.iloc if isinstance(given, pd.DataFrame) else given
    for part in bag_slices(bags.offsets, _ROWS):
        condition = None if rows is None else rows[part]
        yield instance_table(model, bags[part].in_memory(), labels, given=condition)


def write_parts(parts: Iterable[pd.DataFrame], path: PathLike, *, raw: bool = False) -> None:
    """Write a table by its suffix, whole or not at all, as ``write_table`` does, one part after the other."""
    write: dict[str, Callable[[IO[bytes]], object]] = {
        ".csv": lambda stream: _csv(parts, stream, raw),
        ".csv.gz": lambda stream: _zipped_csv(parts, stream, raw),
        ".parquet": lambda stream: _arrow(parts, stream, pyarrow.parquet.ParquetWriter),
        ".arrow": lambda stream: _arrow(parts, stream, pyarrow.ipc.new_file),
        ".feather": lambda stream: _arrow(parts, stream, pyarrow.ipc.new_file),
    }
    write_whole(path, write[suffix_to_write(path)])


def _csv(parts: Iterable[pd.DataFrame], stream: Any, raw: bool) -> None:
    for number, frame in enumerate(parts):
        write_csv(frame, stream, raw, None, header=number == 0)


def _zipped_csv(parts: Iterable[pd.DataFrame], stream: IO[bytes], raw: bool) -> None:
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as zipped:
        _csv(parts, zipped, raw)


def _arrow(parts: Iterable[pd.DataFrame], stream: IO[bytes], open_writer: Callable[..., Any]) -> None:
    """Every part has the columns and types of the first."""
    remaining = iter(parts)
    first = pyarrow.Table.from_pandas(next(remaining), preserve_index=False)
    with open_writer(stream, first.schema) as writer:
        writer.write_table(first)
        for frame in remaining:
            writer.write_table(pyarrow.Table.from_pandas(frame, schema=first.schema, preserve_index=False))
