"""Many systems with one kernel matrix and different noise, solved side by side (theory section 7).

    (K + diag σ²_c) x = b   for every class c and every right-hand side b of it:

the systems differ in the diagonal only, so one product K V serves all of them in every iteration. The preconditioner of
class c is ΦΦᵀ + diag σ²_c with the pivoted Cholesky factor Φ of K, inverted by Woodbury's formula:

    (ΦΦᵀ + D)⁻¹ = D⁻¹ − D⁻¹ Φ A⁻¹ Φᵀ D⁻¹,   A = I + Φᵀ D⁻¹ Φ.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.linalg import whiten

MOST_ITERATIONS = 1000

Product = Callable[[Tensor], Tensor]


class LowRank:
    """(ΦΦᵀ + diag σ²_c)⁻¹ for every class, as D^(−½) (I − U Uᵀ) D^(−½) with U = D^(−½) Φ C⁻ᵀ and C Cᵀ = A.

    In double precision: the eigenvalues of U Uᵀ lie below 1, by very little in the directions that matter.
    """

    def __init__(self, phi: Tensor, noise: Tensor) -> None:
        self.phi, self.noise = phi, noise
        self._root = noise.sqrt().T[:, :, None]  # (C, n, 1)
        scaled = phi / self._root
        precision = scaled.mT @ scaled
        precision.diagonal(dim1=1, dim2=2).add_(1.0)  # no eigenvalue is below 1
        self.factors: Tensor = torch.linalg.cholesky(precision)  # (C, k, k), of A_c
        self._u = scaled @ whiten(self.factors, torch.eye(phi.shape[1]).to(phi)).mT

    def solve(self, b: Tensor) -> Tensor:
        """For b of shape (n, C, m)."""
        scaled = b.transpose(0, 1) / self._root
        scaled = torch.baddbmm(scaled, self._u, self._u.mT @ scaled, alpha=-1.0)
        return scaled.div_(self._root).transpose(0, 1)


class Solution(NamedTuple):
    """x, (n, C, m); how often K was multiplied; the largest |b − A x| / |b| of any column."""

    x: Tensor
    iterations: int
    residual: float


@torch.no_grad()
def solve(
    product: Product,
    preconditioner: LowRank,
    b: Tensor,
    *,
    tol: float,
    start: Tensor | None = None,
    max_iter: int = MOST_ITERATIONS,
) -> Solution:
    """Preconditioned conjugate gradients on all columns of b, (n, C, m), at once, until every residual is small."""
    noise, size = preconditioner.noise[:, :, None], _dots(b, b)

    def times(v: Tensor) -> Tensor:
        return product(v.reshape(len(v), -1)).reshape(v.shape).addcmul_(noise, v)

    x = torch.zeros_like(b) if start is None else start.clone()
    r = b.clone() if start is None else b - times(x)
    z = preconditioner.solve(r)
    p, rz = z.clone(), _dots(r, z)
    for iteration in range(max_iter):
        if (residual := _worst(r, size)) <= tol:
            return Solution(x, iteration, residual)
        q = times(p)
        step = _ratio(rz, _dots(p, q))
        x.addcmul_(p, step)
        r.addcmul_(q, -step)
        z = preconditioner.solve(r)
        before, rz = rz, _dots(r, z)
        p.mul_(_ratio(rz, before)).add_(z)
    return Solution(x, max_iter, _worst(r, size))


def _dots(a: Tensor, b: Tensor) -> Tensor:
    products: Tensor = torch.linalg.vecdot(a, b, dim=0)
    return products


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, 0 where a column has nothing left to do."""
    return torch.where(b > 0, a / b, 0.0)


def _worst(r: Tensor, size: Tensor) -> float:
    return float(torch.sqrt(_ratio(_dots(r, r), size)).max())
