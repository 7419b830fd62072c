"""Linear equations of a matrix of which only products are known."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError


def gmres(product: Callable[[Tensor], Tensor], b: Tensor, tol: float, most: int) -> Tensor:
    """x with |A x − b| ≤ tol |b|, or as near as ``most`` products A v come (Saad & Schultz 1986; no restarts).

    The basis of the Krylov space is orthogonalised twice; Givens rotations keep the small problem triangular.
    """
    size = float(torch.linalg.vector_norm(b))
    if size == 0.0:
        return torch.zeros_like(b)
    basis, small = [b / size], _Triangle(size)
    for k in range(most):
        new, known = product(basis[k]), torch.stack(basis)
        length = float(torch.linalg.vector_norm(new))
        along = known @ new
        new = new - along @ known
        again = known @ new
        new = new - again @ known
        rest = float(torch.linalg.vector_norm(new))
        small.add([*(along + again).tolist(), rest])
        if small.left() <= tol * size or rest <= 1e-14 * length:
            break
        basis.append(new / rest)
    y = b.new_tensor(small.solution())
    solution: Tensor = y @ torch.stack(basis[: len(y)])
    return solution


class _Triangle:
    """min |H y − β e₁| for a Hessenberg matrix H that grows by a column at a time."""

    def __init__(self, size: float) -> None:
        self._columns: list[list[float]] = []
        self._turns: list[tuple[float, float]] = []
        self._goal = [size]

    def add(self, column: list[float]) -> None:
        """One more column of H, with its entry below the diagonal turned away."""
        k = len(self._turns)
        for i, (c, s) in enumerate(self._turns):
            column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
        length = math.hypot(column[k], column[k + 1])
        if not 0.0 < length < math.inf:
            raise NumericalError("a system of linear equations is singular, or holds no numbers.")
        c, s = column[k] / length, column[k + 1] / length
        self._turns.append((c, s))
        self._columns.append([*column[:k], length])
        self._goal[k:] = [c * self._goal[k], -s * self._goal[k]]

    def left(self) -> float:
        """|H y − β e₁| at the best y."""
        return abs(self._goal[-1])

    def solution(self) -> list[float]:
        """The best y."""
        y = self._goal[:-1]
        for k in reversed(range(len(y))):
            y[k] /= self._columns[k][k]
            for i in range(k):
                y[i] -= self._columns[k][i] * y[k]
        return y
