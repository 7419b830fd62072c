"""Cells of bags: the individuals of one bag whose features are the same, in whatever rows they come."""

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise.bags import Bags

Ints = NDArray[np.int64]


def cell_numbers(bags: Bags) -> Ints:
    """(N,) the cell of every row, numbered bag after bag; inside a bag the order of its rows plays no part."""
    both = np.stack([bags.index.astype(np.uint64), _contents(bags)], axis=1)
    return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _contents(bags: Bags) -> NDArray[np.uint64]:
    """A number for the content of every row; equal rows have equal numbers, and so have 0 and −0."""
    X = bags.in_memory().X
    dense = np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=np.float64) + 0.0
    return np.asarray(pd.util.hash_pandas_object(pd.DataFrame(dense), index=False), dtype=np.uint64)
