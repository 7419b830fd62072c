"""Bags as single rows: what the witness model needs of the kernel, bags × bags numbers and no more (theory 6.2).

With weights P (one row per bag, supported on its instances, summing to one) bag scores are a = P F, and their prior
covariance is K_B = P k Pᵀ + bias². ``rows`` gives T with T Tᵀ = K_B, so that a = T v with v ~ N(0, I); ``scores`` gives
F = k Pᵀ α + bias² Σα for every instance (6.4). A rows object belongs to one kernel as it stands; ``rows`` can be
differentiated by the kernel's parameters.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp import kernels
from bagwise.gp.features import Features
from bagwise.numerics.linalg import cholesky, unwhiten, whiten
from bagwise.numerics.segments import Segments


class PooledRows(Protocol):
    """Instances in bags, seen by a kernel."""

    segments: Segments

    def rows(self, weights: Tensor) -> Tensor:
        """T, (B, r), with T Tᵀ = P k Pᵀ + bias²."""

    def scores(self, weights: Tensor, alpha: Tensor) -> Tensor:
        """F = k Pᵀ α + bias² Σα, (N,)."""


RowsAt = Callable[[Any], PooledRows]  # from a kernel


def rows_of(features: Features, bags: Bags, *, exact: bool) -> RowsAt:
    """How to see some bags through any kernel.

    ``exact``: by k(X, X) itself, for a few thousand instances at most; otherwise through the inducing inputs. Sparse
    rows under a linear kernel stay sparse and need neither.
    """
    segments = Segments(torch.from_numpy(bags.offsets.copy()).to(features.device))
    shared = (segments, features.bias, features.jitter)
    if stays_sparse(features.kernel, bags):
        scaled, centre = _scaled(bags.X, features)
        return lambda kernel: SparseLinearRows(kernel, scaled, centre, *shared)
    x = features.standardised(bags.X)
    if exact:
        return lambda kernel: ExactRows(kernel, x, *shared)
    return lambda kernel: InducedRows(kernel, x, features.inducing, *shared)


def stays_sparse(kernel: Any, bags: Bags) -> bool:
    """Whether the rows never have to be made dense: they are sparse and the kernel is linear."""
    return scipy.sparse.issparse(bags.X) and kernels.linear_variance(kernel) is not None


class ExactRows:
    """Every instance is its own inducing input: K_B from k(X, X)."""

    def __init__(self, kernel: Any, x: Tensor, segments: Segments, bias: float, jitter: float) -> None:
        self.segments, self._bias, self._jitter = segments, bias, jitter
        self._gram = kernels.cross(kernel, x, x).double()

    def rows(self, weights: Tensor) -> Tensor:
        """Through the factor of P k Pᵀ."""
        half = _pooled(self._gram, weights, self.segments)
        return _with_bias(_root(_pooled(half.T, weights, self.segments), self._jitter), self._bias)

    def scores(self, weights: Tensor, alpha: Tensor) -> Tensor:
        """One product with k(X, X)."""
        return self._gram @ (weights * self.segments.spread(alpha)) + self._bias**2 * alpha.sum()


class InducedRows:
    """T = P Φ through inducing inputs: nothing larger than R × N."""

    def __init__(
        self, kernel: Any, x: Tensor, inducing: Tensor, segments: Segments, bias: float, jitter: float
    ) -> None:
        self.segments, self._bias, self._jitter = segments, bias, jitter
        self._lower = cholesky(kernels.gram(kernel, inducing), jitter, "kernel matrix", attempts=3).lower.double()
        self._cross = kernels.cross(kernel, x, inducing).double()  # (N, R)

    def rows(self, weights: Tensor) -> Tensor:
        """P Φ itself, or where there are fewer bags than inducing inputs the factor of P Φ Φᵀ Pᵀ."""
        pooled = self._whitened(weights)
        rows = pooled if pooled.shape[1] <= pooled.shape[0] else _root(pooled @ pooled.T, self._jitter)
        return _with_bias(rows, self._bias)

    def scores(self, weights: Tensor, alpha: Tensor) -> Tensor:
        """Φ (Tᵀ α)."""
        v = self._whitened(weights).T @ alpha
        return self._cross @ unwhiten(self._lower, v[:, None])[:, 0] + self._bias**2 * alpha.sum()

    def _whitened(self, weights: Tensor) -> Tensor:
        return whiten(self._lower, _pooled(self._cross, weights, self.segments).T).T


class SparseLinearRows:
    """k = v x·x' on sparse rows x = (X − m) / s, which are never written out: only bags × bags numbers are dense.

    Rows of P sum to one, so P x = P X/s − m/s, and K_B = v (P X/s − m/s)(P X/s − m/s)ᵀ.
    """

    def __init__(
        self, kernel: Any, X: Any, centre: NDArray[np.float64], segments: Segments, bias: float, jitter: float
    ) -> None:
        variance = kernels.linear_variance(kernel)
        if variance is None:
            raise BagDataError(f"sparse rows without densifying need a linear kernel, not {kernels.summary(kernel)}.")
        self.segments, self._variance, self._bias, self._jitter = segments, variance.double(), bias, jitter
        self._X, self._centre = X, centre

    def rows(self, weights: Tensor) -> Tensor:
        """Through the factor of v (P x)(P x)ᵀ."""
        gram = torch.as_tensor(self._gram(self.pooled(weights)), device=weights.device)
        return _with_bias(_root(self._variance * gram, self._jitter), self._bias)

    def scores(self, weights: Tensor, alpha: Tensor) -> Tensor:
        """X (Xᵀ Pᵀ α), centred on both sides."""
        a = alpha.cpu().numpy()
        direction = self.pooled(weights).T @ a - a.sum() * self._centre
        raw = self._X @ direction - self._centre @ direction
        return self._variance.detach() * torch.as_tensor(raw, device=alpha.device) + self._bias**2 * alpha.sum()

    def means(self, weights: Tensor) -> Tensor:
        """P x, bags × columns: the inducing inputs through which this model is exact."""
        return torch.as_tensor(self.pooled(weights).toarray() - self._centre, device=weights.device)

    def pooled(self, weights: Tensor) -> Any:
        """P X/s, bags × columns, sparse."""
        offsets = self.segments.offsets.cpu().numpy()
        columns = np.arange(self._X.shape[0])
        P = scipy.sparse.csr_array((weights.cpu().numpy(), columns, offsets), shape=(len(offsets) - 1, len(columns)))
        return P @ self._X

    def _gram(self, pooled: Any) -> NDArray[np.float64]:
        along = np.asarray(pooled @ self._centre)
        inner = np.asarray((pooled @ pooled.T).todense())
        gram: NDArray[np.float64] = inner - along[:, None] - along[None, :] + self._centre @ self._centre
        return gram


def _scaled(X: Any, features: Features) -> tuple[Any, NDArray[np.float64]]:
    """X/s, sparse, and m/s."""
    shift, scale = features.shift.cpu().numpy(), features.scale.cpu().numpy()
    scaled = scipy.sparse.csr_array(X.astype(np.float64)) @ scipy.sparse.diags_array(1.0 / scale)
    return scipy.sparse.csr_array(scaled), shift / scale


def _pooled(matrix: Tensor, weights: Tensor, segments: Segments) -> Tensor:
    return segments.sum(weights[:, None] * matrix)


def _root(gram: Tensor, jitter: float) -> Tensor:
    return cholesky(0.5 * (gram + gram.T), jitter, "kernel matrix of the bags").lower


def _with_bias(rows: Tensor, bias: float) -> Tensor:
    return torch.cat([rows, torch.full_like(rows[:, :1], bias)], dim=1) if bias > 0 else rows
