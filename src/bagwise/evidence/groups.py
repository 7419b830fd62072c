"""Groups that rows belong to: columns of 0 and 1, exactly one of which is 1 in every row."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bagwise.bags import Bags

MOST_GROUPS = 4  # above, effects have one size for all: the search for more sizes takes too long


def group_columns(bags: Bags, most: int | None = MOST_GROUPS) -> tuple[int, ...]:
    """Numbers of the features that name the group of every row; none where there are no such features, or too many."""
    X = _dense(bags.in_memory().X)
    columns = np.flatnonzero(np.isin(X, (0.0, 1.0)).all(axis=0) & (X == 1.0).any(axis=0))
    few = len(columns) >= 2 and (most is None or len(columns) <= most)
    named = few and bool((X[:, columns].sum(axis=1) == 1.0).all())
    return tuple(columns.tolist()) if named else ()


def members(X: Any, columns: tuple[int, ...]) -> NDArray[np.float64]:
    """(n, G) 1 where a row belongs to the group; 0 everywhere for rows of no group, or of several."""
    own = _dense(X)[:, list(columns)]
    sound = np.isin(own, (0.0, 1.0)).all(axis=1) & (own.sum(axis=1) == 1.0)
    found: NDArray[np.float64] = own * sound[:, None]
    return found


def _dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=np.float64)
