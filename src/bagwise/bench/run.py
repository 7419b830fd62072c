"""From descriptions to results: which cells are left, who does them, and what is written."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from bagwise._files import alone_in, write_whole
from bagwise.bench.cells import EVERYTHING, Cell, Choice, cells_of, check_names
from bagwise.bench.crew import Crew, make_crew
from bagwise.bench.description import Table
from bagwise.bench.measure import measure_cell
from bagwise.bench.progress import Clock, Progress
from bagwise.bench.protocols import check_data
from bagwise.bench.render import html_page, markdown_page
from bagwise.bench.store import Record, Store
from bagwise.bench.summary import Summary, summarise
from bagwise.exceptions import BagDataError
from bagwise.models._base.estimator import check_device


@dataclass(frozen=True)
class Plan:
    """What is to be run, where the data are and where the results go."""

    tables: tuple[Table, ...]
    data: Path | None
    output: Path
    choice: Choice = EVERYTHING
    jobs: int = 1
    cluster: str | None = None
    fresh: bool = False
    device: str = "cpu"


def run(plan: Plan) -> list[Path]:
    """Measure what is not yet measured; write results, Markdown and HTML. Ctrl-C keeps every finished cell.

    Returns the files written, the HTML page last.
    """
    check_names(plan.tables, plan.choice.only)
    if plan.cluster is None:
        check_device(plan.device)
    wanted = {table.name: cells_of(table, plan.choice) for table in plan.tables}
    check_data(plan.data, tuple(cell.data for cells in wanted.values() for cell in cells))
    if not any(wanted.values()):
        raise BagDataError("nothing to do: --only and --repeat leave no cell of this table.")
    plan.output.mkdir(parents=True, exist_ok=True)
    with alone_in(plan.output, "bagwise bench"):
        return _run(plan, wanted)


def _run(plan: Plan, wanted: dict[str, list[Cell]]) -> list[Path]:
    stores = {table.name: open_store(plan, table) for table in plan.tables}
    pending = [cell for name, cells in wanted.items() for cell in stores[name].pending(cells)]
    try:
        measure_pending(pending, sum(map(len, wanted.values())) - len(pending), stores, plan)
    finally:
        summaries = [_summary(table, wanted[table.name], stores[table.name], plan) for table in plan.tables]
        written = _write([summary for summary in summaries if summary.n_wanted], plan.output)
    return [*(results_path(plan.output, table) for table in plan.tables if wanted[table.name]), *written]


def results_path(output: Path, table: Table) -> Path:
    """The file of results of a table."""
    return output / f"{table.name}.jsonl"


def open_store(plan: Plan, table: Table) -> Store:
    """What is already measured of a table; nothing where the plan begins afresh."""
    path = results_path(plan.output, table)
    if plan.fresh:
        path.unlink(missing_ok=True)
    return Store(path)


def _summary(table: Table, cells: Sequence[Cell], store: Store, plan: Plan) -> Summary:
    records = [record for cell in cells if (record := store.finished(cell)) is not None]
    failed = [store.records[cell.key] for cell in cells if cell.key in store.records and not store.finished(cell)]
    return summarise(table, records, failed, n_wanted=len(cells), quick=plan.choice.quick)


def _write(summaries: Sequence[Summary], output: Path) -> list[Path]:
    pages = {f"{summary.table.name}.md": markdown_page([summary]) for summary in summaries}
    name = "index" if len(summaries) > 1 else summaries[0].table.name
    try:
        pages[f"{name}.html"] = html_page(summaries)
    except ImportError as error:
        print(f"no HTML page ({error}); the same command writes it where jinja2 is installed.", file=sys.stderr)
    for file, text in pages.items():
        write_whole(output / file, _as_bytes(text))
    return [output / file for file in pages]


def _as_bytes(text: str) -> Callable[..., object]:
    return lambda stream: stream.write(text.encode("utf-8"))


# ---------------------------------------------------------------- the work


def measure_pending(pending: list[Cell], n_before: int, stores: dict[str, Store], plan: Plan) -> None:
    """Measure cells and store each one as it is finished; ``n_before`` were finished before and only count."""
    if not pending:
        return
    folder = Path() if plan.data is None else plan.data.resolve()
    crew = make_crew(partial(measure_cell, device=plan.device), folder, min(plan.jobs, len(pending)), plan.cluster)
    clock = Clock(pending, crew.n_lanes)
    try:
        with Progress(len(pending), n_before, clock) as progress:
            for cell, record, seconds in work_through(SplitQueue(pending), crew):
                stores[cell.table.name].add(record)
                progress.finished(cell, record, seconds)
    finally:
        crew.close()


class Queue(Protocol):
    """Cells that wait for a lane."""

    def take(self, lane: int) -> Cell | None:
        """The next cell for a lane; None when there is nothing left to begin."""
        ...


def work_through(queue: Queue, crew: Crew) -> Iterable[tuple[Cell, Record, float]]:
    """Every cell with its record as it is finished, and the time it took."""
    busy: dict[int, tuple[Cell, float]] = {}

    def occupy(lane: int) -> None:
        cell = queue.take(lane)
        if cell is not None:
            busy[lane] = cell, time.monotonic()
            crew.start(lane, cell)

    for lane in range(crew.n_lanes):
        occupy(lane)
    while busy:
        lane, record = crew.wait()
        cell, began = busy.pop(lane)
        yield cell, record or _lost(cell), time.monotonic() - began
        occupy(lane)


def _lost(cell: Cell) -> Record:
    """The record of a cell whose worker died over it."""
    return {
        "key": cell.key,
        "table": cell.table.name,
        "set": cell.data.name,
        "model": cell.model.name,
        "fingerprint": cell.fingerprint,
        "error": "its worker died (out of memory?)",
    }


class SplitQueue:
    """Cells by split: a lane goes on with its split, then begins another, at last helps where most is left."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._waiting: dict[tuple[str, str, int, int], deque[Cell]] = {}
        self._mine: dict[int, tuple[str, str, int, int]] = {}
        for cell in cells:
            self._waiting.setdefault(cell.split_key, deque()).append(cell)

    def take(self, lane: int) -> Cell | None:
        """The next cell for a lane; None when there is nothing left to begin."""
        if not self._waiting:
            return None
        if self._mine.get(lane) not in self._waiting:
            self._mine[lane] = self._next_split()
        split = self._mine[lane]
        cell = self._waiting[split].popleft()
        if not self._waiting[split]:
            del self._waiting[split]
        return cell

    def _next_split(self) -> tuple[str, str, int, int]:
        taken = set(self._mine.values())
        untouched = next((split for split in self._waiting if split not in taken), None)
        return untouched or max(self._waiting, key=lambda split: len(self._waiting[split]))
