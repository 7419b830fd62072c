"""The posterior of the whitened weights v, and the only derivation of q(f*) from q(v)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bagwise.linalg import settled, unwhiten, whiten


@dataclass(frozen=True)
class GaussianPosterior:
    """v ~ N(mean_k, (C Cᵀ)⁻¹) for every label column k; columns with the same evidence pattern share one factor C."""

    mean: Tensor  # (R, K)
    factors: Tensor  # (P, R, R), Cholesky factors of the precisions
    factor_of: Tensor  # (K,) which factor belongs to each column

    def __post_init__(self) -> None:
        for name in ("mean", "factors", "factor_of"):
            object.__setattr__(self, name, settled(getattr(self, name)))

    def moments(self, phi: Tensor, kappa: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f = φᵀv + N(0, κ) for rows φ: φᵀμ and |C⁻¹φ|² + κ, each (n, K)."""
        rows = phi.to(self.mean.dtype)
        spread = torch.stack([whiten(factor, rows.T).square().sum(0) for factor in self.factors], dim=1)
        return rows @ self.mean, spread[:, self.factor_of] + kappa.to(self.mean.dtype)[:, None]

    def draws(self, normals: Tensor) -> Tensor:
        """(K, R, S) draws of v from (R, S) standard normal (or quasi-random normal) columns: μ + C⁻ᵀ z."""
        spread = torch.stack([unwhiten(factor, normals) for factor in self.factors])
        return self.mean.T[:, :, None] + spread[self.factor_of]

    def to(self, device: torch.device) -> "GaussianPosterior":
        """The same posterior on another device."""
        return GaussianPosterior(self.mean.to(device), self.factors.to(device), self.factor_of.to(device))
