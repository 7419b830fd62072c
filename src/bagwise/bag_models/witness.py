"""A bag is judged by a weighted mean of its latent values, the weight resting on its witness (theory section 6.2)."""

from dataclasses import dataclass

from torch import Tensor

from bagwise.bag_models.soft_max import BagLosses


@dataclass(frozen=True)
class WitnessLoss:
    """The loss of bag scores a = P F, (b,): ordinary classification with one case per bag, convex."""

    losses: BagLosses

    def value(self, a: Tensor) -> Tensor:
        """Σ_b ℓ(a_b)."""
        return self.losses.value(a)

    def slope(self, a: Tensor) -> Tensor:
        """ℓ', (b,)."""
        return self.losses.slope(a)

    def curvature(self, rows: Tensor, a: Tensor) -> Tensor:
        """Tᵀ diag(ℓ'') T for rows T = P Φ."""
        return rows.T @ (self.losses.bend(a)[:, None] * rows)
