"""How the latent values of a bag become one score: the soft maximum, and weights on witnesses (theory section 6)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bagwise.special import Segments

POOLINGS = ("sum", "mean")


@dataclass(frozen=True)
class Pooling:
    """The soft maximum: its sharpness β, and whether it is of the sum or of the mean."""

    name: str = "sum"
    sharpness: float = 1.0

    def score(self, F: Tensor, segments: Segments) -> Tensor:
        """a of every bag; F is (n, …)."""
        total = segments.logsumexp(self.sharpness * F)
        if self.name == "mean":
            sizes = segments.sizes.to(F.dtype).log()
            total = total - sizes.reshape(-1, *[1] * (F.ndim - 1))
        return total / self.sharpness

    def weights(self, F: Tensor, segments: Segments) -> Tensor:
        """P, which sums to one over every bag."""
        scaled = self.sharpness * F
        return torch.exp(scaled - segments.spread(segments.logsumexp(scaled)))


def uniform_weights(segments: Segments, dtype: torch.dtype = torch.float64) -> Tensor:
    """The same weight for every instance of a bag."""
    return segments.spread(1.0 / segments.sizes.to(dtype))


def soft_witness(F: Tensor, segments: Segments, sharpness: float) -> Tensor:
    """Weights ∝ exp(λ F) within every bag: (29) of the paper."""
    return Pooling("sum", sharpness).weights(F, segments)


def hard_witness(F: Tensor, segments: Segments) -> Tensor:
    """All the weight on the largest F of every bag, shared where several are largest: (28) of the paper."""
    largest = (segments.spread(segments.max(F)) == F).to(F.dtype)
    return largest / segments.spread(segments.sum(largest))
