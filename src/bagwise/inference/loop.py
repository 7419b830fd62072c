"""The one iteration loop: trace, tolerance, progress, guard against non-finite values, interruption."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bagwise.exceptions import NumericalError


class Report(NamedTuple):
    """What one iteration says: the objective before it, and how far it moved in its own natural unit."""

    objective: float
    residual: float


@dataclass(frozen=True)
class Trace:
    """The course of an iteration."""

    name: str  # what the objective is
    values: NDArray[np.float64]  # objective at the start of each iteration
    residuals: NDArray[np.float64]  # how far each iteration moved
    converged: bool
    interrupted: bool = False
    gains: tuple[float, ...] = ()  # of a search that looked elsewhere: what it gained from each start, the usual first

    def __len__(self) -> int:
        return len(self.values)


def one_after_the_other(traces: Sequence[Trace]) -> Trace:
    """The courses of several label columns, in their order; converged if all are."""
    values, residuals = (np.concatenate([getattr(trace, name) for trace in traces]) for name in ("values", "residuals"))
    converged, interrupted = all(trace.converged for trace in traces), any(trace.interrupted for trace in traces)
    return Trace(traces[0].name, values, residuals, converged, interrupted)


Callback = Callable[[int, float], object]


@dataclass(frozen=True)
class Watch:
    """Who looks on: a progress bar if ``verbose``, and a function called with the iteration and the objective."""

    label: str = ""
    verbose: int = 0
    callback: Callback | None = None


SILENT = Watch()


def iterate(
    step: Callable[[], Report], *, name: str, max_iter: int, tol: float, watch: Watch = SILENT, open_end: bool = False
) -> Trace:
    """Call ``step`` until its residual is at most ``tol``, ``max_iter`` times at most, or until interrupted.

    Ctrl-C ends the loop between two steps with everything kept; whoever called decides how to pass it on. With
    ``open_end`` the limit is a safeguard nobody expects to reach, and the progress bar does not count towards it.
    """
    reports: list[Report] = []
    interrupted = False
    with progress(watch, None if open_end else max_iter, name) as advance:
        try:
            while len(reports) < max_iter and not (reports and reports[-1].residual <= tol):
                reports.append(_finite(step(), name, len(reports)))
                advance(reports[-1].objective)
        except KeyboardInterrupt:
            interrupted = True
    values, residuals = np.array(reports, dtype=np.float64).reshape(-1, 2).T.copy()
    return Trace(name, values, residuals, bool(reports) and reports[-1].residual <= tol, interrupted)


def _finite(report: Report, name: str, iteration: int) -> Report:
    if not (math.isfinite(report.objective) and math.isfinite(report.residual)):
        raise NumericalError(
            f"the {name} became {report.objective} in iteration {iteration + 1}; check the scale of the features "
            "(standardize=True) and the kernel, or use dtype='float64'."
        )
    return report


@contextmanager
def progress(watch: Watch, total: int | None, name: str) -> Iterator[Callable[[float], None]]:
    """A function to call with the objective after every iteration; draws a bar on standard error if asked to."""
    done = 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[value]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = not watch.verbose  # so is the console quiet: rich before 15 ends even a hidden bar with an empty line
    with Progress(*columns, console=Console(stderr=True, quiet=hidden), disable=hidden) as bar:
        task = bar.add_task(watch.label, total=total, value="")

        def advance(objective: float) -> None:
            nonlocal done
            done += 1
            bar.update(task, advance=1, value=f"{name} {objective:.6g}")
            if watch.callback is not None:
                watch.callback(done, objective)

        yield advance
