"""Mean and standard deviation of every column of the rows, a bounded number of rows at a time."""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis

from bagwise.sources.ahead import one_ahead
from bagwise.sources.rows import StoredRows

Floats = NDArray[np.float64]

WINDOW = 2**17  # rows whose moments are found for themselves, by whoever reads them, and then joined
_ROWS = 8192  # read at a time …
_CACHED = 2**15  # … and numbers worked on at a time: of a megabyte at a time the memory itself takes twice as long
_ROUNDING = 8 * np.finfo(np.float64).eps  # a column that varies by no more of its size is constant


class Course(NamedTuple):
    """What is known of every column after some rows."""

    n: int
    mean: Floats  # (D,), as all others
    squares: Floats  # Σ (x − mean)²
    low: Floats
    high: Floats


class ColumnSummary(NamedTuple):
    """What standardising needs to know of every column."""

    mean: Floats
    scale: Floats  # standard deviation, 1 for a constant column; infinite where a number is too large
    varies: NDArray[np.bool_]


def column_moments(X: Any, weight: Any = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of every column (1 for a constant one); infinite where a number is too large.

    ``weight`` (N,), where given, says how many individuals each row stands for.
    """
    if weight is None:
        return column_summary(X)[:2]
    with np.errstate(over="ignore", invalid="ignore"):
        return _weighted_moments(X, np.asarray(weight, dtype=np.float64))


def column_summary(X: Any) -> ColumnSummary:
    """One pass over the rows. Those that stay in a file remember it, so that the file is not read for it again."""
    if isinstance(X, StoredRows) and X.summary is not None:
        found: ColumnSummary = X.summary
        return found
    with np.errstate(over="ignore", invalid="ignore"):
        found = _sparse_summary(X) if scipy.sparse.issparse(X) else _dense_summary(X)
    if isinstance(X, StoredRows):
        X.summary = found
    return found


def _dense_summary(X: Any) -> ColumnSummary:
    course = FIRST_PASS.get()(X) if isinstance(X, StoredRows) else passed(X)
    span = course.high - course.low
    constant = span <= _ROUNDING * np.maximum(np.abs(course.low), np.abs(course.high))
    scale = np.sqrt(course.squares / course.n)
    lost = ~constant & np.isfinite(span) & ~(np.isfinite(scale) & (course.squares > np.finfo(float).tiny / _ROUNDING))
    if lost.any():  # squares of such numbers are none: the columns are seen again in units of their span
        unit, shift = span[lost], course.low[lost]
        again = passed(X, _Units(shift, unit, lost))
        course.mean[lost] = shift + unit * again.mean
        scale[lost] = unit * np.sqrt(again.squares / again.n)
    return ColumnSummary(course.mean, np.where(constant, 1.0, scale), course.low < course.high)


class _Units(NamedTuple):
    """In which some columns are seen."""

    shift: Any = 0.0
    unit: Any = 1.0
    columns: Any = slice(None)


_AS_THEY_ARE = _Units()


def passed(X: Any, units: _Units = _AS_THEY_ARE) -> Course:
    """A pass over the rows by this process, window by window."""
    windows = groupby(enumerate(_blocks(X)), lambda numbered: numbered[0] // (WINDOW // _ROWS))
    return reduce(joined_courses, (reduce(joined_courses, _courses(blocks, units)) for _, blocks in windows))


def _courses(blocks: Iterator[tuple[int, Any]], units: _Units) -> Iterator[Course]:
    for _, rows in blocks:
        step = max(1, _CACHED // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            some = np.asarray(rows[start : start + step], dtype=np.float64)
            yield _course_of((some[:, units.columns] - units.shift) / units.unit)


FIRST_PASS: ContextVar[Callable[[StoredRows], Course]] = ContextVar("first pass", default=passed)


def _blocks(X: Any) -> Iterator[Any]:
    """Some rows at a time; of those in a file the next are read meanwhile."""
    if isinstance(X, StoredRows):
        return one_ahead(X.blocks(_ROWS))
    return (X[start : start + _ROWS] for start in range(0, X.shape[0], _ROWS))


def _course_of(rows: Floats) -> Course:
    mean = rows.mean(axis=0)
    return Course(len(rows), mean, np.square(rows - mean).sum(axis=0), rows.min(axis=0), rows.max(axis=0))


def joined_courses(one: Course, other: Course) -> Course:
    """Moments of some rows and of further ones (Chan, Golub & LeVeque)."""
    total, delta = one.n + other.n, other.mean - one.mean
    return Course(
        total,
        one.mean + delta * (other.n / total),
        one.squares + other.squares + np.square(delta) * (one.n * other.n / total),
        np.minimum(one.low, other.low),
        np.maximum(one.high, other.high),
    )


def _weighted_moments(X: Any, weight: Floats) -> tuple[Floats, Floats]:
    present = weight > 0
    rows, share = X[present].astype(np.float64), weight[present] / weight.sum()
    mean = np.asarray(share @ rows).ravel()
    if scipy.sparse.issparse(rows):
        variance = np.asarray(share @ rows.multiply(rows)).ravel() - np.square(mean)
    else:
        variance = share @ np.square(rows - mean)
    constant = variance <= np.square(_ROUNDING * np.maximum(np.abs(mean), 1.0))
    return mean, np.where(constant, 1.0, np.sqrt(np.maximum(variance, 0.0)))


def _sparse_summary(X: Any) -> ColumnSummary:
    """In units of the largest number of each column, whose squares are numbers too."""
    rows = X.astype(np.float64)
    largest = np.asarray(abs(rows).max(axis=0).todense()).ravel()
    unit = np.where(largest > 0, largest, 1.0)
    rows.data /= unit[rows.indices]
    mean, variance = mean_variance_axis(rows, axis=0)
    constant = variance <= np.square(_ROUNDING * np.maximum(np.abs(mean), 1.0))
    low, high = (np.asarray(part.todense()).ravel() for part in (X.min(axis=0), X.max(axis=0)))
    return ColumnSummary(unit * mean, np.where(constant, 1.0, unit * np.sqrt(variance)), low < high)
