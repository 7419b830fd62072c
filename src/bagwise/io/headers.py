"""The column names of a table, read before anything else: a mistyped name is refused at once, not after imports."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from bagwise._files import PathLike
from bagwise._text import shorten
from bagwise.exceptions import BagDataError

_LONGEST_LINE = 2**20  # characters of a header that is looked at here


def refuse_mistyped(path: PathLike, names: Iterable[str | None]) -> None:
    """Refuse names that no column of a CSV file has.

    Files of other kinds, and headers that cannot be read in this simple way, are left to ``read_table``, which reads
    them in full and says what is wrong with them.
    """
    header = csv_header(Path(path))
    if header is not None:
        refuse_missing(path, [name for name in names if name is not None], header)


def refuse_missing(path: PathLike, names: Iterable[str], columns: Iterable[str]) -> None:
    """Refuse names that are not among the columns of a table."""
    there = list(columns)
    missing = [name for name in names if name not in set(there)]
    if missing:
        raise BagDataError(f"{path}: there is no column {shorten(missing)}; the table has {shorten(there, 12)}.")


def csv_header(path: Path) -> list[str] | None:
    """Names of at least two columns in the first line of a CSV file; None where it holds no such line."""
    if not path.name.lower().endswith((".csv", ".csv.gz")):
        return None
    try:
        with _opened(path) as stream:
            line = stream.readline(_LONGEST_LINE)
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error):
        return None
    names = next(csv.reader([line]), []) if line.endswith("\n") and line.count('"') % 2 == 0 else []
    return names if len(names) > 1 else None


def _opened(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
