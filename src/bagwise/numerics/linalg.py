"""The one Cholesky factorisation, what is done with its factor, and second derivatives of a function."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError

DEFAULT_JITTER = {torch.float64: 1e-6, torch.float32: 1e-4}
_ATTEMPTS = 5
_CACHED_ROWS = 1024


class Factor(NamedTuple):
    """Lower triangle L with L Lᵀ = A + jitter · mean(diag A) · I; ``jitter`` is what was really needed.

    (Of a matrix with zero mean diagonal ``jitter`` is absolute.)
    """

    lower: Tensor
    jitter: float


def cholesky(A: Tensor, jitter: float = 0.0, what: str = "matrix", attempts: int = _ATTEMPTS) -> Factor:
    """Factor a symmetric positive definite matrix, adding ``jitter`` (relative) and ten times more on each failure."""
    if not bool(torch.isfinite(A).all()):
        raise NumericalError(
            f"the {what} holds values that are not finite; check the scale of the features and kernel."
        )
    size, tried = A.diagonal().mean(), jitter
    size = torch.where(size == 0, torch.ones_like(size), size)
    for _ in range(attempts):
        lower, info = torch.linalg.cholesky_ex(A + (tried * size) * torch.eye(len(A), dtype=A.dtype, device=A.device))
        if int(info) == 0:
            return Factor(lower, tried)
        tried = max(10.0 * tried, 10.0 * torch.finfo(A.dtype).eps)
    raise NumericalError(
        f"the {what} ({len(A)} x {len(A)}) is not positive definite, even with jitter {tried / 10.0:.0e} of its mean "
        "diagonal; remove repeated inducing inputs or use a larger jitter."
    )


def owned(A: Tensor) -> Tensor:
    """A copy of A, row by row in memory of torch's own.

    How a product rounds its last digit depends on layout and alignment; copies of one layout give the same digits
    whether they were just computed or come out of a file.
    """
    return A.detach().clone(memory_format=torch.contiguous_format)


def weighted_gram(rows: Tensor, weights: Tensor) -> Tensor:
    """Σ wᵢ rowᵢ rowᵢᵀ, a stretch of rows that fits the cache at a time; one corner follows by symmetry."""
    half, columns = rows.shape[1] // 2, rows.shape[1]
    whole = rows.new_zeros(columns, columns)
    for some, weight in zip(*(torch.split(part, _together(rows)) for part in (rows, weights)), strict=True):
        weighted = weight[:, None] * some
        whole[:half, :half] += some[:, :half].T @ weighted[:, :half]
        whole[:, half:] += some.T @ weighted[:, half:]
    whole[half:, :half] = whole[:half, half:].T
    return whole


def squared_lengths(rows: Tensor, lower: Tensor) -> Tensor:
    """|L rowᵢ|² for a lower triangle L, of which the upper right corner is not multiplied."""
    half = rows.shape[1] // 2
    return torch.cat(
        [
            (some[:, :half] @ lower[:half, :half].mT).square().sum(1) + (some @ lower[half:].mT).square().sum(1)
            for some in torch.split(rows, _together(rows))
        ]
    )


def _together(rows: Tensor) -> int:
    """How many rows are worked on together: those that fit the cache of a processor, all of them on a GPU."""
    return _CACHED_ROWS if rows.device.type == "cpu" else max(1, len(rows))


def whiten(lower: Tensor, b: Tensor) -> Tensor:
    """L⁻¹ b."""
    solution: Tensor = torch.linalg.solve_triangular(lower, b, upper=False)
    return solution


def unwhiten(lower: Tensor, b: Tensor) -> Tensor:
    """L⁻ᵀ b: turns standard normal columns into columns with covariance A⁻¹."""
    solution: Tensor = torch.linalg.solve_triangular(lower.mT, b, upper=True)
    return solution


def solve_factor(lower: Tensor, b: Tensor) -> Tensor:
    """A⁻¹ b from the factor of A; b is a matrix of columns."""
    return torch.cholesky_solve(b, lower)


def logdet(lower: Tensor) -> Tensor:
    """log det A from the factor of A."""
    return 2.0 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def second_derivatives(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """All of them at a point (R,), (R, R): one batched backward pass."""
    point = at.detach().requires_grad_()
    (slope,) = torch.autograd.grad(function(point), point, create_graph=True)
    (rows,) = torch.autograd.grad(
        slope, point, torch.eye(len(at), dtype=at.dtype, device=at.device), is_grads_batched=True
    )
    return rows
