"""Who does the work: this process, processes of our own, or the workers of a Dask cluster. All the same to ``run``.

A crew has lanes that do one cell at a time. The cells of one split go to one lane as far as possible, because a lane
remembers the split it prepared last.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bagwise.bench.cells import Cell
from bagwise.bench.store import Record
from bagwise.exceptions import BagDataError

Work = Callable[[Cell, Path], Record]
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Finished(NamedTuple):
    """A lane that is free again, and the record of its cell; None if the lane died over it."""

    lane: int
    record: Record | None


class Crew(Protocol):
    """Lanes numbered 0 … n_lanes - 1."""

    n_lanes: int

    def start(self, lane: int, cell: Cell) -> None:
        """Give a free lane a cell to do."""
        ...

    def wait(self) -> Finished:
        """The next lane to finish."""
        ...

    def close(self) -> None:
        """Stop at once, whatever is still being done."""
        ...


class OneCrew:
    """A single lane: this process itself."""

    n_lanes = 1

    def __init__(self, work: Work, folder: Path) -> None:
        self._work, self._folder = work, folder
        self._cell: Cell | None = None

    def start(self, lane: int, cell: Cell) -> None:
        """Remember the cell; it is done when it is waited for."""
        self._cell = cell

    def wait(self) -> Finished:
        """Do the cell."""
        assert self._cell is not None
        return Finished(0, self._work(self._cell, self._folder))

    def close(self) -> None:
        """There is nothing to stop."""


class ProcessCrew:
    """One process per lane, started afresh (never forked: threads of the numerical libraries do not survive that)."""

    def __init__(self, work: Work, folder: Path, n_lanes: int) -> None:
        self.n_lanes = n_lanes
        self._work, self._folder = work, folder
        os.environ.update({name: os.environ.get(name, "1") for name in _THREADS})
        self._lanes = [self._open() for _ in range(n_lanes)]
        self._busy: set[int] = set()

    def start(self, lane: int, cell: Cell) -> None:
        """Send the cell to its process."""
        self._busy.add(lane)
        self._lanes[lane][1].send(cell)

    def wait(self) -> Finished:
        """The first process to answer; one that died is replaced."""
        ready = wait([self._lanes[lane][1] for lane in self._busy])[0]
        lane = next(lane for lane in self._busy if self._lanes[lane][1] is ready)
        self._busy.remove(lane)
        try:
            return Finished(lane, self._lanes[lane][1].recv())
        except EOFError:
            self._lanes[lane] = self._open()
            return Finished(lane, None)

    def close(self) -> None:
        """End the processes."""
        for process, connection in self._lanes:
            connection.close()
            process.terminate()
        for process, _ in self._lanes:
            process.join()

    def _open(self) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._work, self._folder), daemon=True)
        process.start()
        theirs.close()
        return process, ours


def _serve(connection: Connection, work: Work, folder: Path) -> None:
    """Do cells until nobody asks for more. Ctrl-C is for the parent, which then ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            connection.send(work(connection.recv(), folder))
    except (EOFError, BrokenPipeError):
        return


class DaskCrew:
    """One lane per thread of every worker of a Dask cluster. The workers must see the data folder by the same path."""

    def __init__(self, work: Work, folder: Path, address: str) -> None:
        try:
            from distributed import Client, as_completed
        except ImportError as error:
            raise BagDataError("--cluster needs the package distributed: pip install 'bagwise[dask]'.") from error
        self._client = Client(address, timeout="20s")
        threads: dict[str, int] = self._client.nthreads()
        self._homes = [worker for worker, count in threads.items() for _ in range(count)]
        if not self._homes:
            raise BagDataError(f"--cluster {address}: the cluster has no workers.")
        self.n_lanes = len(self._homes)
        self._work, self._folder = work, folder
        self._lane_of: dict[str, int] = {}
        self._done = as_completed(raise_errors=False)

    def start(self, lane: int, cell: Cell) -> None:
        """Submit the cell to the worker of the lane; another may take it over if that one goes away."""
        future = self._client.submit(
            self._work, cell, self._folder, workers=[self._homes[lane]], allow_other_workers=True, pure=False
        )
        self._lane_of[future.key] = lane
        self._done.add(future)

    def wait(self) -> Finished:
        """The next future to finish."""
        future = next(self._done)
        lane = self._lane_of.pop(future.key)
        return Finished(lane, future.result() if future.status == "finished" else None)

    def close(self) -> None:
        """Let go of the cluster; what it still does is cancelled with the futures."""
        self._client.close()


def make_crew(work: Work, folder: Path, jobs: int, cluster: str | None) -> Crew:
    """The crew that was asked for."""
    if cluster is not None:
        return DaskCrew(work, folder, cluster)
    return ProcessCrew(work, folder, jobs) if jobs > 1 else OneCrew(work, folder)
