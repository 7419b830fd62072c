"""How far the work is, and how long it will take: a bar where there is a terminal, a line now and then elsewhere."""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import rich.progress
from rich.console import Console

from bagwise._validation import visible
from bagwise.bench.cells import Cell
from bagwise.bench.store import Record

_EVERY = 30.0  # seconds between lines where there is no bar


class Clock:
    """Estimates the time left from the mean time of the cells of each model that are done."""

    def __init__(self, cells: Iterable[Cell], n_lanes: int) -> None:
        self._left: dict[tuple[str, str], int] = defaultdict(int)
        self._times: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._n_lanes = n_lanes
        for cell in cells:
            self._left[_kind(cell)] += 1

    def done(self, cell: Cell, seconds: float) -> None:
        """A cell took this long."""
        self._left[_kind(cell)] -= 1
        self._times[_kind(cell)].append(seconds)

    def seconds_left(self) -> float | None:
        """None before anything is known."""
        means = {kind: sum(times) / len(times) for kind, times in self._times.items()}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        work = sum(count * means.get(kind, usual) for kind, count in self._left.items())
        return work / min(self._n_lanes, max(1, sum(self._left.values())))


def _kind(cell: Cell) -> tuple[str, str]:
    return cell.table.name, cell.model.name


class Progress:
    """Tells the user after every cell. Use as a context manager."""

    def __init__(self, n_cells: int, n_before: int, clock: Clock) -> None:
        self._n_cells, self._done, self._clock = n_cells + n_before, n_before, clock
        self._bar, self._task = _bar(self._n_cells, n_before)
        self._began = self._reported = time.monotonic()

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        else:
            self._line()

    def finished(self, cell: Cell, record: Record, seconds: float) -> None:
        """One more cell is done."""
        self._clock.done(cell, seconds)
        self._done += 1
        if record["error"] is not None:
            self._say(f"{cell.key} failed: {record['error']}")
        if self._bar is not None:
            self._bar.update(self._task, advance=1, left=self._left(), cell=cell.key)
        elif time.monotonic() - self._reported > _EVERY:
            self._line()

    def _left(self) -> str:
        left = self._clock.seconds_left()
        return "" if left is None else f"about {duration(left)} left"

    def _line(self) -> None:
        self._reported = time.monotonic()
        gone = duration(self._reported - self._began)
        self._say(", ".join(filter(None, (f"{self._done} of {self._n_cells} cells", f"{gone} gone", self._left()))))

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(visible(text), markup=False, highlight=False)
        else:
            print(visible(text), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time as one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _bar(total: int, done: int) -> tuple[Any, Any]:
    """A bar, if somebody looks; (None, None) otherwise."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return None, None
    columns = ("{task.completed}/{task.total} cells", "{task.fields[left]}", "[dim]{task.fields[cell]}")
    bar = rich.progress.Progress(rich.progress.BarColumn(), *map(rich.progress.TextColumn, columns), console=console)
    return bar, bar.add_task("", total=total, completed=done, left="", cell="")
