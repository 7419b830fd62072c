"""How much memory a compressed table would take: found out from what the file says of itself, before it is unpacked."""

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from bagwise._archives import check_read_size
from bagwise.exceptions import BagDataError

MOST_COLUMNS = 2**17
_CELL = 8  # bytes of a number in a frame, or of a place for text
_TEXT = 64  # bytes of a piece of text, at least
_LONGEST_HEADER = 2**26  # bytes


def check_column_count(count: int, path: Path) -> None:
    """Refuse a table that is wider than tables can be handled."""
    if count > MOST_COLUMNS:
        raise BagDataError(
            f"{path}: a table may have {MOST_COLUMNS:,} columns, this one has {count:,}. Keep data this wide in an "
            ".npz archive."
        )


# ---------------------------------------------------------------- CSV


class BoundedText(io.RawIOBase):
    """The text of a gzip file, with an eye on how much memory its cells will take."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, 0
        self._stream = gzip.open(path)  # noqa: SIM115 — closed with this stream

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; refuse once there is too much."""
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._size += len(data) + _CELL * (data.count(b",") + data.count(b"\n"))
        check_read_size(self._size, f"{self._path}: what has been unpacked so far")
        return len(data)

    def close(self) -> None:
        """Close the file, too."""
        self._stream.close()
        super().close()


def open_csv(path: Path) -> io.BufferedIOBase:
    """The bytes of a CSV file, unpacked where it is compressed."""
    return io.BufferedReader(BoundedText(path)) if path.name.lower().endswith(".gz") else path.open("rb")


def check_csv_width(path: Path) -> None:
    """By the commas of the first line; pandas needs kilobytes for every column."""
    with open_csv(path) as stream:
        check_column_count(stream.readline(_LONGEST_HEADER).count(b",") + 1, path)


# ---------------------------------------------------------------- Parquet


def check_parquet(dataset: pyarrow.parquet.ParquetDataset, path: Path) -> None:
    """By the sizes in the metadata, or by the number of values, many of which a few bytes can stand for."""
    check_column_count(len(dataset.schema), path)
    check_read_size(sum(_parquet_bytes(fragment.metadata) for fragment in dataset.fragments), f"{path}: the table")


def parquet_bytes(path: Path) -> int:
    """Bytes that a Parquet file would take in memory; 0 for what is none, which reading it will tell."""
    try:
        return _parquet_bytes(pyarrow.parquet.read_metadata(path))
    except (pyarrow.ArrowException, OSError):
        return 0


def _parquet_bytes(metadata: pyarrow.parquet.FileMetaData) -> int:
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return sum(max(column.total_uncompressed_size, _parquet_width(column) * column.num_values) for column in columns)


def _parquet_width(column: pyarrow.parquet.ColumnChunkMetaData) -> int:
    return _TEXT if column.physical_type.endswith("BYTE_ARRAY") else _CELL


def text_columns(schema: pyarrow.Schema) -> list[str]:
    """Columns whose values may be long and stand in the file once: read as a dictionary they stay that small."""
    return [field.name for field in schema if field.type in (pyarrow.string(), pyarrow.large_string())]


# ---------------------------------------------------------------- Arrow

_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2


def check_arrow(source: pyarrow.NativeFile, n_columns: int, path: Path) -> None:
    """By the number of rows and the lengths of the buffers in every message, from where ``source`` stands."""
    check_column_count(n_columns, path)
    size = sum(_message_bytes(message, n_columns) for message in pyarrow.ipc.MessageReader.open_stream(source))
    check_read_size(size, f"{path}: the table")


def _message_bytes(message: pyarrow.ipc.Message, n_columns: int) -> int:
    """Of a batch of rows or of a dictionary, by the format of Arrow's messages (flatbuffers, Message.fbs).

    A message has its kind in field 1 and its header in field 2; a dictionary has its batch in field 1. A batch has its
    number of rows in field 0, its buffers in field 2 as pairs (place in the body, length), and field 3 if they are
    compressed; then each begins with its length before that, or with -1 where it was left as it was.
    """
    data, body = memoryview(message.metadata), memoryview(message.body or b"")
    root = _followed(data, 0)
    kind, header = _field(data, root, 1), _field(data, root, 2)
    if kind is None or header is None or data[kind] not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return 0
    batch: int | None = _followed(data, header)
    if data[kind] == _DICTIONARY_BATCH and batch is not None:
        inner = _field(data, batch, 1)
        batch = None if inner is None else _followed(data, inner)
    if batch is None:
        return 0
    length = _field(data, batch, 0)
    n_rows = 0 if length is None else struct.unpack_from("<q", data, length)[0]
    return max(_buffer_bytes(data, body, batch), _CELL * n_columns * n_rows)


def _buffer_bytes(data: memoryview, body: memoryview, batch: int) -> int:
    buffers, compressed = _field(data, batch, 2), _field(data, batch, 3) is not None
    if buffers is None:
        return 0
    start = _followed(data, buffers)
    (count,) = struct.unpack_from("<I", data, start)
    total = 0
    for place, length in struct.iter_unpack("<qq", data[start + 4 : start + 4 + 16 * count]):
        unpacked = struct.unpack_from("<q", body, place)[0] if compressed and length else -1
        total += length if unpacked == -1 else unpacked
    return total


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where a field of a table stands, None where it is left out."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, vtable)
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number) if 4 + 2 * number < size else (0,)
    return table + offset if offset else None


def _followed(data: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])
