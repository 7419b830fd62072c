"""q(v) while it is being looked for: what sums over bags make of it, and what it says about instances."""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.linalg import cholesky, squared_lengths, whiten


class Belief(NamedTuple):
    """What everyone knows: q(v) as mean (R, K) and inverse Cholesky factors C⁻¹ (K, R, R) of its precisions."""

    mean: Tensor
    inverse: Tensor

    @classmethod
    def prior(cls, n_columns: int, n_labels: int, device: torch.device) -> "Belief":
        """v ~ N(0, I) in every label column."""
        eye = torch.eye(n_columns, dtype=torch.float64, device=device)
        return cls(torch.zeros(n_columns, n_labels, dtype=torch.float64, device=device), eye.expand(n_labels, -1, -1))

    def centre(self, phi: Tensor) -> Tensor:
        """φᵀ E v for every row, (n, K)."""
        return phi @ self.mean.to(phi.dtype)

    def spread(self, phi: Tensor) -> Tensor:
        """φᵀ Cov(v) φ = |C⁻¹φ|² for every row, (n, K)."""
        return torch.stack([squared_lengths(phi, inverse.to(phi.dtype)) for inverse in self.inverse], dim=1)


def solved(precision: Tensor, shift: Tensor, attempts: int = 5) -> tuple[Tensor, Belief]:
    """Cholesky factors of I + precision_k, (K, R, R), and the belief N((I + precision_k)⁻¹ shift_k, …) they make."""
    eye = torch.eye(len(shift), dtype=torch.float64, device=shift.device)
    factors = torch.stack([cholesky(eye + part, what="precision", attempts=attempts).lower for part in precision])
    inverse = whiten(factors, eye.expand_as(factors))
    mean = torch.stack([inv.T @ (inv @ part) for inv, part in zip(inverse, shift.T, strict=True)], dim=1)
    return factors, Belief(mean, inverse)
