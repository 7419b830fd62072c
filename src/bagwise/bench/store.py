"""Results as JSON lines: every finished cell is appended at once, so that an interrupted run loses none."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bagwise.bench.cells import Cell
from bagwise.exceptions import BagDataError
from bagwise.io.plain_json import plain_numbers

Record = dict[str, Any]


class Store:
    """The results of one table in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        if path.exists():
            self._mend()
            self.records = {record["key"]: record for record in self._read()}

    def add(self, record: Record) -> None:
        """Keep a record, in memory and on disk."""
        line = json.dumps(plain_numbers(record), allow_nan=False) + "\n"
        with self.path.open("ab") as stream:
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())
        self.records[record["key"]] = json.loads(line)

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell that was measured without an error under the same settings."""
        record = self.records.get(cell.key)
        same = record is not None and record["fingerprint"] == cell.fingerprint and record["error"] is None
        return record if same else None

    def pending(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are still to be measured."""
        return [cell for cell in cells if self.finished(cell) is None]

    def _mend(self) -> None:
        """Cut off what was being written when a run was killed: a last line without its end."""
        text = self.path.read_bytes()
        if text and not text.endswith(b"\n"):
            with self.path.open("r+b") as stream:
                stream.truncate(text.rfind(b"\n") + 1)

    def _read(self) -> Iterable[Record]:
        for number, line in enumerate(self.path.read_bytes().splitlines(), start=1):
            try:
                record = json.loads(line)
                record["key"], record["fingerprint"], record["error"]
            except (ValueError, KeyError, TypeError) as error:
                raise BagDataError(
                    f"{self.path}, line {number}: not a result of a cell ({type(error).__name__}); "
                    "delete the line, or the file to begin anew."
                ) from error
            yield record
