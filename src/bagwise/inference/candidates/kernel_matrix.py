"""The kernel matrix of all instances: kept where it fits into memory, computed row block by row block where not."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bagwise.gp import kernels

KEPT_BYTES = {"cpu": 4 * 2**30, "cuda": 48 * 2**30}  # largest matrix that is kept
_BLOCK_BYTES = {"cpu": 2**25, "cuda": 2**30}  # of one block of rows; a kernel needs several times as much on the way


class KernelMatrix:
    """k(X, X) + b² for one kernel at its present parameters (the constant is part of the kernel)."""

    def __init__(self, kernel: Any, x: Tensor, bias: float, kept_bytes: int | None = None) -> None:
        self.kernel, self.x, self.bias = kernel, x, bias
        limit = KEPT_BYTES[x.device.type] if kept_bytes is None else kept_bytes
        self._kept = len(x) ** 2 * x.element_size() <= limit
        self._matrix = torch.empty(0)
        self.renew()

    @property
    def kept(self) -> bool:
        """Whether the matrix lies in memory as a whole."""
        return self._kept

    @torch.no_grad()
    def renew(self) -> None:
        """Forget the old parameters."""
        if not self._kept:
            return
        n = len(self.x)
        if len(self._matrix) != n:
            self._matrix = torch.empty(n, n, dtype=self.x.dtype, device=self.x.device)
        for rows in self._row_blocks():
            self._matrix[rows] = kernels.cross(self.kernel, self.x[rows], self.x)

    @torch.no_grad()
    def product(self, columns: Tensor) -> Tensor:
        """(k(X, X) + b²) V for V of shape (n, m), which may be of higher precision than the matrix."""
        rounded = columns.to(self.x.dtype)
        if self._kept:
            product = (self._matrix @ rounded).to(columns.dtype)
        else:
            product = torch.empty_like(columns)
            for rows in self._row_blocks():
                product[rows] = (kernels.cross(self.kernel, self.x[rows], self.x) @ rounded).to(columns.dtype)
        if self.bias > 0:  # the sum cancels where the columns are almost orthogonal to the constant
            product.add_(columns.sum(0, dtype=torch.float64).mul_(self.bias**2).to(columns.dtype))
        return product

    @torch.no_grad()
    def row(self, number: Tensor) -> Tensor:
        """k(x_i, X) for one i, a tensor of shape (1,); without the constant."""
        if self._kept:
            return self._matrix.index_select(0, number)[0]
        return kernels.cross(self.kernel, self.x.index_select(0, number), self.x)[0]

    @torch.no_grad()
    def diagonal(self) -> Tensor:
        """k(x_i, x_i), without the constant."""
        return kernels.diagonal(self.kernel, self.x).clone()

    def pull_back(self, left: Tensor, right: Tensor) -> None:
        """Add Σ_ij (left rightᵀ)_ij dk(x_i, x_j) to the gradients of the kernel's parameters, block by block."""
        for rows in self._row_blocks():
            block = kernels.cross(self.kernel, self.x[rows], self.x)
            torch.autograd.backward(block, left[rows] @ right.T)

    def _row_blocks(self) -> Iterator[slice]:
        n = len(self.x)
        step = max(1, _BLOCK_BYTES[self.x.device.type] // (n * self.x.element_size()))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))


def pivoted_cholesky(matrix: KernelMatrix, rank: int) -> tuple[Tensor, Tensor]:
    """Φ (n, k) with ΦΦᵀ ≈ k(X, X), and the k instances that were chosen, the worst explained one each time.

    Φ is what whitened features with these instances as inducing inputs are (0.1), so the preconditioner made from it is
    the sparse posterior. Nothing here waits for the device. An instance chosen when all are explained gives a column of
    zeros.
    """
    left = matrix.diagonal()
    enough = left.max() * len(left) * torch.finfo(left.dtype).eps
    phi = torch.zeros(len(left), min(rank, len(left)), dtype=left.dtype, device=left.device)
    chosen = torch.zeros(phi.shape[1], dtype=torch.int64, device=left.device)
    for column in range(phi.shape[1]):
        pivot = left.argmax().reshape(1)
        height = left.index_select(0, pivot)
        fresh = matrix.row(pivot) - phi[:, :column] @ phi.index_select(0, pivot)[0, :column]
        fresh = torch.where(height > enough, fresh / height.clamp(min=enough).sqrt(), 0.0)
        phi[:, column], chosen[column] = fresh, pivot[0]
        left = (left - fresh.square()).clamp(min=0.0).index_fill(0, pivot, 0.0)
    return phi, chosen
