"""Results as JSON lines: every finished cell is appended at once, so that an interrupted run loses none."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bagwise.bench.cells import Cell
from bagwise.io.json_lines import append_line, cut_unfinished, read_lines

Record = dict[str, Any]
_NEEDED = ("key", "fingerprint", "error")


class Store:
    """The results of one table in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        if path.exists():
            cut_unfinished(path)
            self.records = {record["key"]: record for record in read_lines(path, _NEEDED, "a result of a cell")}

    def add(self, record: Record) -> None:
        """Keep a record, in memory and on disk."""
        self.records[record["key"]] = append_line(self.path, record)

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell that was measured without an error under the same settings."""
        record = self.records.get(cell.key)
        same = record is not None and record["fingerprint"] == cell.fingerprint and record["error"] is None
        return record if same else None

    def pending(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are still to be measured."""
        return [cell for cell in cells if self.finished(cell) is None]
