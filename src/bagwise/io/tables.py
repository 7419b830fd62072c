"""Long tables, one row per instance: CSV, Parquet, Arrow."""

import csv
import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from bagwise._files import PathLike, is_stream, write_whole
from bagwise._validation import shorten, visible
from bagwise.exceptions import BagDataError
from bagwise.io.headers import refuse_missing
from bagwise.io.table_sizes import check_arrow, check_csv_width, check_parquet, open_csv, text_columns

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def read_table(path: PathLike, bag: str | None = None, text: Sequence[str] = ()) -> pd.DataFrame:
    """Read a long table by its suffix; the column ``bag`` is kept as text ("007" stays "007", "NA" stays "NA").

    So are the columns of other keys that are named by ``text``, where they are there.
    """
    keys = list(dict.fromkeys([*([] if bag is None else [bag]), *text]))
    read = {
        ".csv": _read_csv,
        ".csv.gz": _read_csv,
        ".parquet": _read_parquet,
        ".arrow": _read_arrow,
        ".feather": _read_arrow,
    }[table_suffix(path)]
    frame = _read_or_explain(path, lambda: read(Path(path), keys))
    _check_once(frame.columns, path)
    for key in keys:
        if key == bag or key in frame.columns:
            frame[key] = _bag_keys(frame, key, path)
    return frame


def write_table(frame: pd.DataFrame, path: PathLike, *, raw: bool = False) -> None:
    """Write a table by its suffix, whole or not at all; the index is left out.

    A spreadsheet takes text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return for a formula and
    computes it. In CSV files an apostrophe is put before such text (never before numbers), unless it is to be kept
    ``raw``. Parquet and Arrow files keep text as it is.
    """
    write: dict[str, Callable[[IO[bytes]], object]] = {
        ".csv": lambda stream: write_csv(frame, stream, raw, None),
        ".csv.gz": lambda stream: write_csv(frame, stream, raw, {"method": "gzip", "mtime": 0}),
        ".parquet": lambda stream: frame.to_parquet(stream, index=False),
        ".arrow": lambda stream: frame.reset_index(drop=True).to_feather(stream),
        ".feather": lambda stream: frame.reset_index(drop=True).to_feather(stream),
    }
    write_whole(path, write[suffix_to_write(path)])


def csv_bytes(frame: pd.DataFrame, *, raw: bool = False) -> bytes:
    """The CSV file that ``write_table`` would write."""
    stream = io.BytesIO()
    write_csv(frame, stream, raw, None)
    return stream.getvalue()


def write_csv(
    frame: pd.DataFrame, stream: IO[bytes], raw: bool, compression: dict[str, Any] | None, *, header: bool = True
) -> None:
    """Write a frame as CSV, its names only with ``header``."""
    texts = [place for place, kind in enumerate(frame.dtypes) if _is_text(kind)]
    table = frame if raw else frame.rename(columns=_quoted)
    for place in () if raw else texts:
        table.isetitem(place, frame.iloc[:, place].astype(object).map(_quoted).to_numpy())
    # Left to itself the writer quotes what holds a line feed, but not a carriage return, which ends a line as well.
    ends = any("\r" in str(cell) for place in texts for cell in frame.iloc[:, place].unique())
    table.to_csv(
        stream,
        index=False,
        header=header,
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if ends else csv.QUOTE_MINIMAL,
        compression=compression,
    )


def _is_text(kind: Any) -> bool:
    return pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.StringDtype | pd.CategoricalDtype)


def _quoted(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def table_suffix(path: PathLike) -> str:
    """The suffix that says which kind of table this is; anything else is an error."""
    name = Path(path).name.lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise BagDataError(f"{path}: not a kind of table bagwise knows; the name must end in {', '.join(SUFFIXES)}.")


def suffix_to_write(path: PathLike) -> str:
    """The suffix of a table to write; a device or a pipe, which seldom has one, takes CSV."""
    return ".csv" if is_stream(path) and not Path(path).name.lower().endswith(SUFFIXES) else table_suffix(path)


def _read_or_explain(path: PathLike, read: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    try:
        return read()
    except (BagDataError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # pandas, pyarrow, gzip and struct each have their own
        reason = visible(str(error).strip().splitlines()[0])[:200] if str(error).strip() else type(error).__name__
        raise BagDataError(
            f"{path}: cannot be read as a {table_suffix(path)} table ({reason.rstrip('.')}); "
            "is it complete, and is it what its name says?"
        ) from error


def _read_csv(path: Path, keys: Sequence[str]) -> pd.DataFrame:
    check_csv_width(path)
    _check_header(path)
    with warnings.catch_warnings(), open_csv(path) as stream:
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        frame = pd.read_csv(
            stream,
            converters={name: lambda key: f"={key}" for name in keys},
            index_col=False,
            low_memory=False,
        )
    for name in frame.columns.intersection(list(keys)):  # the mark kept "NA" from being read as missing
        frame[name] = frame[name].str[1:]
    return frame


def _check_header(path: Path) -> None:
    """Refuse what pandas would quietly rename or read as one wide column."""
    with open_csv(path) as stream:
        header = pd.read_csv(stream, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    _check_once(pd.Index(header), path)
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise BagDataError(f"{path}: the header has no commas ({header[0]!r}); write it with commas between columns.")


def _check_once(names: "pd.Index[Any]", path: PathLike) -> None:
    if names.has_duplicates:
        raise BagDataError(f"{path}: column {shorten(names[names.duplicated()])} occurs twice; rename one of them.")


def _read_parquet(path: Path, _: Sequence[str]) -> pd.DataFrame:
    if path.is_file():
        _check_once(pd.Index(pyarrow.parquet.read_schema(path).names), path)
    schema = pyarrow.parquet.ParquetDataset(path).schema
    texts = text_columns(schema)
    dataset = pyarrow.parquet.ParquetDataset(path, read_dictionary=texts)
    check_parquet(dataset, path)
    frame = _without_index(dataset.read(use_pandas_metadata=True).to_pandas())
    return frame.astype({name: object for name in texts if name in frame.columns})


def _read_arrow(path: Path, _: Sequence[str]) -> pd.DataFrame:
    with pyarrow.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        opened = pyarrow.ipc.open_file(source) if is_file else pyarrow.ipc.open_stream(source)
        n_columns = len(opened.schema)
        _check_once(pd.Index(opened.schema.names), path)
        source.seek(8 if is_file else 0)  # a file is a stream between two words
        check_arrow(source, n_columns, path)
        source.seek(0)
        table = (opened if is_file else pyarrow.ipc.open_stream(source)).read_all()
        table.validate(full=True)  # pyarrow itself follows offsets wherever they point
        return _without_index(table.to_pandas())


def _without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """A named index is a column like any other; an unnamed one only counted the rows."""
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named).reset_index(drop=True) if named else frame.reset_index(drop=True)


def _bag_keys(frame: pd.DataFrame, bag: str, path: PathLike) -> "pd.Series[Any]":
    refuse_missing(path, [bag], frame.columns)
    keys = frame[bag].astype(object)
    absent = (keys.isna() | (keys.map(str).str.strip() == "")).to_numpy()
    if absent.any():
        raise BagDataError(
            f"{path}: column {bag!r} is empty in row {int(absent.argmax())} (the first row below the header is 0); "
            "every instance must belong to a bag."
        )
    return keys.map(str).astype(object)
