"""How much a prior lets a field do: what could be learned about it at some rows."""

import torch

from bagwise.bags import Bags
from bagwise.gp.features import Features
from bagwise.numerics.linalg import cholesky, logdet, weighted_gram


@torch.no_grad()
def capacity(features: Features, bags: Bags) -> float:
    """½ log det(I + K): nats that a noisy look (variance 1) at the field of every row would tell.

    With K = ΦΦᵀ + diag(κ) it is ½ Σ log(1 + κᵢ) + ½ log det(I + Φᵀ diag(1 + κ)⁻¹ Φ). A smooth field, or one of small
    variance, has little of it.
    """
    inside = torch.eye(features.n_columns, dtype=torch.float64, device=features.device)
    alone = 0.0
    for _, design in features.designs(bags):
        noise = 1.0 + design.kappa.double()
        inside += weighted_gram(design.phi.double(), 1.0 / noise)
        alone += float(torch.log(noise).sum())
    return 0.5 * alone + 0.5 * float(logdet(cholesky(inside, what="capacity").lower))
