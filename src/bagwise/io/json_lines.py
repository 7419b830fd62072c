"""Files of JSON lines that only grow: a line is on disk before anybody relies on it; half a line is no line."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bagwise.exceptions import BagDataError
from bagwise.io.plain_json import plain_numbers


def append_line(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add a record to the file and wait until it is on disk; the record as it will be read again."""
    line = json.dumps(plain_numbers(record), allow_nan=False) + "\n"
    with path.open("ab") as stream:
        stream.write(line.encode())
        stream.flush()
        os.fsync(stream.fileno())
    read: dict[str, Any] = json.loads(line)
    return read


def cut_unfinished(path: Path) -> None:
    """Cut off what was being written when a process was killed: a last line without its end."""
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        with path.open("r+b") as stream:
            stream.truncate(text.rfind(b"\n") + 1)


def read_lines(path: Path, needed: tuple[str, ...], what: str, start: int = 0) -> Iterator[dict[str, Any]]:
    """The whole lines of the file from byte ``start`` on; one that lacks a ``needed`` entry is an error."""
    with path.open("rb") as stream:
        before = stream.read(start).count(b"\n")
        text = stream.read()
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), start=before + 1):
        try:
            record = json.loads(line)
            _ = [record[name] for name in needed]
        except (ValueError, KeyError, TypeError) as error:
            raise BagDataError(
                f"{path}, line {number}: not {what} ({type(error).__name__}); "
                "delete the line, or the file to begin anew."
            ) from error
        yield record
