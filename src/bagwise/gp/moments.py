"""Mean and standard deviation of every column of the rows, a bounded number of rows at a time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis

from bagwise.sources.ahead import one_ahead
from bagwise.sources.rows import StoredRows

Floats = NDArray[np.float64]

_ROWS = 8192  # read at a time …
_CACHED = 2**15  # … and numbers worked on at a time: of a megabyte at a time the memory itself takes twice as long
_ROUNDING = 8 * np.finfo(np.float64).eps  # a column that varies by no more of its size is constant


class _Course(NamedTuple):
    """What is known of every column after some rows."""

    n: int
    mean: Floats
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
    course = _pass_over(X)
    span = course.high - course.low
    constant = span <= _ROUNDING * np.maximum(np.abs(course.low), np.abs(course.high))
    scale = np.sqrt(course.squares / course.n)
    lost = ~constant & np.isfinite(span) & ~(np.isfinite(scale) & (course.squares > np.finfo(float).tiny / _ROUNDING))
    if lost.any():  # squares of such numbers are none: the columns are seen again in units of their span
        unit, shift = span[lost], course.low[lost]
        again = _pass_over(X, shift, unit, lost)
        course.mean[lost] = shift + unit * again.mean
        scale[lost] = unit * np.sqrt(again.squares / again.n)
    return ColumnSummary(course.mean, np.where(constant, 1.0, scale), course.low < course.high)


def _pass_over(X: Any, shift: Any = 0.0, unit: Any = 1.0, columns: Any = slice(None)) -> _Course:
    width = len(np.arange(X.shape[1])[columns])
    course = _Course(0, np.zeros(width), np.zeros(width), np.full(width, np.inf), np.full(width, -np.inf))
    step = max(1, _CACHED // max(1, X.shape[1]))
    for rows in _blocks(X):
        for start in range(0, len(rows), step):
            some = np.asarray(rows[start : start + step], dtype=np.float64)
            course = _joined(course, (some[:, columns] - shift) / unit)
    return course


def _blocks(X: Any) -> Iterator[Any]:
    """Some rows at a time; of those in a file the next are read meanwhile."""
    if isinstance(X, StoredRows):
        return one_ahead(X.blocks(_ROWS))
    return (X[start : start + _ROWS] for start in range(0, X.shape[0], _ROWS))


def _joined(course: _Course, rows: Floats) -> _Course:
    """Moments of what was seen and of some more rows (Chan, Golub & LeVeque)."""
    count, mean = len(rows), rows.mean(axis=0)
    squares = np.square(rows - mean).sum(axis=0)
    total, delta = course.n + count, mean - course.mean
    return _Course(
        total,
        course.mean + delta * (count / total),
        course.squares + squares + np.square(delta) * (course.n * count / total),
        np.minimum(course.low, rows.min(axis=0)),
        np.maximum(course.high, rows.max(axis=0)),
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
