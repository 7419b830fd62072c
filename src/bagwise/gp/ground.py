"""What features stand on besides their kernel and inducing inputs: how rows are scaled or projected."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from torch import Tensor

from bagwise import _validation as check
from bagwise._matrices import column_name
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp import kernels
from bagwise.gp.moments import column_moments, column_summary
from bagwise.numerics.linalg import DEFAULT_JITTER

_MANY_COLUMNS, _EMPTY = 1000, 0.9  # from so many columns on, and with such a share of zeros, rows count as sparse
_LOOKED_AT = 1000  # rows that are looked at for it …
_LEARNED_FROM = 20_000  # … and, of rows that are stored densely, for principal directions
_LEAST_SEEN = 0.05  # length within the directions, of a row of length 1, up to which a row is stretched in full


class Ground(NamedTuple):
    """The scale of the rows, the constant, jitter."""

    shift: Tensor
    scale: Tensor
    bias: float
    jitter: float
    projection: Tensor | None = None
    stretched: bool = False

    def rows(self, X: Any) -> Tensor:
        """Rows as a kernel sees them."""
        return standardised_rows(X, self.shift, self.scale, self.projection, stretched=self.stretched)


def make_ground(
    bags: Bags, *, bias: float, standardize: bool, jitter: float | None, device: torch.device, dtype: torch.dtype
) -> Ground:
    """The settings of an estimator, checked, and the scale of its training rows."""
    standardise = check.check_flag("standardize", standardize)
    shift, scale = _moments(bags, device, dtype) if standardise else _no_moments(bags, device)
    size = DEFAULT_JITTER[dtype] if jitter is None else check.check_below("jitter", jitter, 1.0)
    return Ground(shift, scale, check.check_positive("bias", bias, zero=True), size)


def projected_ground(ground: Ground, bags: Bags, width: int, random: np.random.RandomState) -> Ground:
    """Rows on their leading principal directions, where all have the length √d, d being the number of directions.

    Standardising thousands of mostly empty columns puts every row at its own distance from all others, however alike
    they are; what rows of unit length share is in a few directions. New rows have less in these than the rows they were
    learned from (TREC9 4: .22 against .34 of the squared length), as if they said less. So rows are stretched.
    """
    rows = _unit_rows(_sparse_rows(bags.X))
    width = max(1, min(width, *(size - 1 for size in rows.shape)))
    with np.errstate(divide="ignore", invalid="ignore"):  # it takes shares of the variance, and rows may be all alike
        svd = TruncatedSVD(width, random_state=random).fit(rows)
    shift, scale = _no_moments(bags, ground.shift.device)
    directions = torch.tensor(svd.components_.T.copy(), device=shift.device)
    return ground._replace(shift=shift, scale=scale, projection=directions, stretched=True)


def is_sparse(bags: Bags) -> bool:
    """Whether rows are mostly empty: a sparse matrix, or very many columns that hold zeros almost everywhere."""
    if scipy.sparse.issparse(bags.X):
        return bags.n_features > 1
    if bags.n_features < _MANY_COLUMNS:
        return False
    return float(np.mean(_every(bags.X, _LOOKED_AT) == 0)) > _EMPTY


def _every(X: Any, n: int) -> NDArray[Any]:
    """At most n of the rows, at equal distances."""
    return np.asarray(X[:: -(-X.shape[0] // n)])


def _sparse_rows(X: Any) -> Any:
    """Rows as a sparse matrix; where they are stored densely, at most so many of them."""
    return X if scipy.sparse.issparse(X) else scipy.sparse.csr_array(_every(X, _LEARNED_FROM))


def own_scale(bags: Bags, kernel: Any, standardize: bool) -> float | None:
    """Where to begin with the lengthscale of a kernel given by name on rows taken as they come: their spread.

    (Of standardised rows it is √D, which is the kernel's own choice.)
    """
    if standardize or not isinstance(kernel, str):
        return None
    mean, deviation, varies = column_summary(bags.X)
    spread = (np.square(deviation) * varies).sum() + (np.square(mean).sum() if kernels.is_linear(kernel) else 0.0)
    return math.sqrt(spread) if np.isfinite(spread) and spread > 0 else None


def _moments(bags: Bags, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shift and scale that standardise every column."""
    shift, scale = column_moments(bags.X, bags.weight)
    with np.errstate(over="ignore", invalid="ignore"):
        far = ~(np.abs(shift) / scale < farthest(dtype))
    wrong = np.flatnonzero(far | ~np.isfinite(shift) | ~np.isfinite(scale))
    if len(wrong):
        name = column_name(int(wrong[0]), bags.feature_names)
        raise BagDataError(f"{name} holds numbers too large to standardise; divide it by a constant.")
    return torch.tensor(shift, device=device), torch.tensor(scale, device=device)


def farthest(dtype: torch.dtype) -> float:
    """How far from 0 a standardised number may lie: its square must be a number still."""
    return math.sqrt(torch.finfo(dtype).max)


def _no_moments(bags: Bags, device: torch.device) -> tuple[Tensor, Tensor]:
    zeros = torch.zeros(bags.n_features, dtype=torch.float64, device=device)
    return zeros, torch.ones_like(zeros)


def standardised_rows(
    X: Any, shift: Tensor, scale: Tensor, projection: Tensor | None = None, *, stretched: bool = False
) -> Tensor:
    """Rows as a kernel sees them, in double precision on the device of the moments.

    ``stretched`` are projected rows that are then brought to one length.
    """
    if projection is not None:
        rows = np.asarray(_unit_rows(X) @ projection.cpu().double().numpy())
        return torch.tensor(_stretched(rows) if stretched else rows, dtype=shift.dtype, device=shift.device)
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
    there = torch.tensor(dense).to(shift.device)  # as they are: half the bytes where they are in single precision
    return there.to(shift.dtype).sub_(shift).div_(scale)


def _stretched(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of the length √d; those of which hardly anything is seen stay shorter, and empty ones at the origin."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    longer: NDArray[Any] = rows * (math.sqrt(rows.shape[1]) / np.maximum(lengths, _LEAST_SEEN))
    return longer


def _unit_rows(X: Any) -> Any:
    """Rows of length 1 (or 0), also where their squares are no numbers."""
    return normalize(normalize(X.astype(np.float64), norm="max"))
