"""A bag is judged by one score: the soft maximum of its latent values, or their mean weighted by witness (theory 6).

    a_b = (1/β) log Σ_i exp(β F_i)        ("sum"; "mean": log of the mean instead)
    P_i = ∂a_b/∂F_i = exp(β F_i) / Σ exp(β F)
    ∂²a_b/∂F² = β (diag P − P Pᵀ)

With the loss ℓ(a) = −log P(label | a) of a link, the Hessian of a bag's loss in its F is
H_b = ℓ' β (diag P − P Pᵀ) + ℓ'' P Pᵀ: not positive definite where ℓ' < 0 (positive bags). With the weights P of the
witnesses held fixed the score is linear in F, and the loss is convex.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.numerics.links import Link
from bagwise.numerics.segments import Segments

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


def signs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """±1 for every bag, and 1 where it has a label, 0 where not (its sign is then +1 and means nothing)."""
    seen = ~torch.isnan(labels)
    return torch.where(seen, 2.0 * labels - 1.0, torch.ones_like(labels)), seen.to(labels.dtype)


class BagLosses(NamedTuple):
    """ℓ, ℓ' and ℓ'' of bag scores a, times the weights of the bags; a bag without a label (NaN) gives zeros."""

    labels: Tensor  # (b,)
    link: Link
    weight: Tensor | None = None  # (b,) how many times a bag counts; None is once

    def value(self, a: Tensor) -> Tensor:
        """Σ_b ℓ(a_b)."""
        sign, times = self._signs()
        return -(times * self.link.log_probability(sign * a)).sum()

    def slope(self, a: Tensor) -> Tensor:
        """ℓ'."""
        sign, times = self._signs()
        return -times * sign * self.link.slope(sign * a)

    def bend(self, a: Tensor) -> Tensor:
        """ℓ''."""
        sign, times = self._signs()
        return times * self.link.bend(sign * a)

    def some(self, chosen: NDArray[np.int64] | slice) -> "BagLosses":
        """The losses of some bags."""
        return BagLosses(self.labels[chosen], self.link, None if self.weight is None else self.weight[chosen])

    def on_its_own(self) -> "BagLosses":
        """The same in memory of its own."""
        return BagLosses(self.labels.clone(), self.link, None if self.weight is None else self.weight.clone())

    def _signs(self) -> tuple[Tensor, Tensor]:
        """±1 for every bag, and how many times it counts: not at all without a label."""
        sign, seen = signs(self.labels)
        return sign, seen if self.weight is None else seen * self.weight


class ColumnsOfLosses(NamedTuple):
    """The losses of the bags of a chunk in every label column."""

    columns: tuple[BagLosses, ...]

    def of_column(self, column: int) -> BagLosses:
        """Those of one column."""
        return self.columns[column]


class LossColumns:
    """The losses of all bags in every label column, cut into chunks on demand."""

    def __init__(self, columns: Sequence[BagLosses], offsets: NDArray[np.int64]) -> None:
        self._columns, self._offsets = columns, offsets

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the bags lie among all instances."""
        return self._offsets

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> ColumnsOfLosses:
        """Those of a run of bags, which share no memory with those of others: they may travel."""
        return ColumnsOfLosses(tuple(column.some(part).on_its_own() for column in self._columns))


def weighted_losses(labels: Tensor, link: Link, weight: NDArray[np.float64] | None) -> list[BagLosses]:
    """The losses of every label column of (b, K); a bag of weight 0 is as good as one without a label."""
    if weight is None:
        return [BagLosses(column, link) for column in labels.T]
    times = torch.as_tensor(weight, dtype=labels.dtype, device=labels.device)
    return [BagLosses(column.masked_fill(times == 0, torch.nan), link, times) for column in labels.T]


@dataclass(frozen=True)
class SoftMaxLoss:
    """The loss of the latent values of whole bags, F (n,)."""

    losses: BagLosses
    segments: Segments
    pooling: Pooling

    def value(self, F: Tensor) -> Tensor:
        """Σ_b ℓ(a_b(F))."""
        return self.losses.value(self.pooling.score(F, self.segments))

    def slope(self, F: Tensor) -> Tensor:
        """∂/∂F: ℓ' P, (n,)."""
        slope = self.losses.slope(self.pooling.score(F, self.segments))
        return self.segments.spread(slope) * self.pooling.weights(F, self.segments)

    def curvature(self, phi: Tensor, F: Tensor) -> Tensor:
        """Φᵀ H Φ = Φᵀ diag(β ℓ' P) Φ + Tᵀ diag(ℓ'' − β ℓ') T with T_b = Σ P_i φ_i: (6.2)."""
        a, P = self.pooling.score(F, self.segments), self.pooling.weights(F, self.segments)
        tilt = self.pooling.sharpness * self.losses.slope(a)
        pooled = self.segments.sum(P[:, None] * phi)
        inner = phi.T @ ((self.segments.spread(tilt) * P)[:, None] * phi)
        return inner + pooled.T @ ((self.losses.bend(a) - tilt)[:, None] * pooled)


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
