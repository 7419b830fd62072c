"""The posterior of the whitened weights v, and the only derivation of q(f*) from q(v)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from bagwise.numerics.linalg import settled, unwhiten, whiten
from bagwise.numerics.links import PROBIT, Link

_BLOCK = 4_000_000  # entries of one (rows × draws) block


@dataclass(frozen=True)
class GaussianPosterior:
    """v ~ N(mean_k, (C Cᵀ)⁻¹) for every label column k; columns with the same evidence pattern share one factor C."""

    mean: Tensor  # (R, K)
    factors: Tensor  # (P, R, R), Cholesky factors of the precisions
    factor_of: Tensor  # (K,) which factor belongs to each column
    link: Link = PROBIT  # from f to the probability of a positive

    def __post_init__(self) -> None:
        for name in ("mean", "factors", "factor_of"):
            object.__setattr__(self, name, settled(getattr(self, name)))

    def moments(self, phi: Tensor, kappa: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f = φᵀv + N(0, κ) for rows φ: φᵀμ and |C⁻¹φ|² + κ, each (n, K)."""
        rows = phi.to(self.mean.dtype)
        return rows @ self.mean, _spread(self.factors, rows)[:, self.factor_of] + kappa.to(self.mean.dtype)[:, None]

    def probability(self, phi: Tensor, kappa: Tensor) -> Tensor:
        """P(y* = 1), (n, K): the link averaged over the law of f."""
        return self.link.expected(*self.moments(phi, kappa))

    def draws(self, normals: Tensor) -> Tensor:
        """(K, R, S) draws of v from (R, S) standard normal (or quasi-random normal) columns: μ + C⁻ᵀ z."""
        spread = torch.stack([unwhiten(factor, normals) for factor in self.factors])
        return self.mean.T[:, :, None] + spread[self.factor_of]

    def to(self, device: torch.device) -> "GaussianPosterior":
        """The same posterior on another device."""
        return GaussianPosterior(self.mean.to(device), self.factors.to(device), self.factor_of.to(device), self.link)


class Draws:
    """What every posterior that consists of draws of v offers; all chains ran side by side."""

    weights: Tensor  # (K, chains, draws, R) v

    def conditional_probability(self, phi: Tensor, kappa: Tensor, column: int) -> Tensor:
        """P(y* = 1) given each draw, (n, chains, draws)."""
        raise NotImplementedError

    def probability(self, phi: Tensor, kappa: Tensor) -> Tensor:
        """P(y* = 1), (n, K): the average over the draws of ``conditional_probability``."""
        rows = max(1, _BLOCK // self.weights.shape[1:3].numel())
        parts = []
        for some, left in zip(torch.split(phi, rows), torch.split(kappa, rows), strict=True):
            columns = [self.conditional_probability(some, left, k).mean((1, 2)) for k in range(len(self.weights))]
            parts.append(torch.stack(columns, dim=1))
        return torch.cat(parts)

    def pooled(self) -> Tensor:
        """(K, R, chains · draws) every draw of v, chain after chain."""
        return self.weights.flatten(1, 2).mT

    def draws(self, normals: Tensor) -> Tensor:
        """(K, R, S) draws of v, as many as ``normals`` has columns: evenly spaced among all of them, in their order."""
        every = self.weights.shape[1:3].numel()
        chosen = torch.arange(normals.shape[1], device=self.weights.device) * every // normals.shape[1]
        return self.pooled()[:, :, chosen]


@dataclass(frozen=True)
class SamplePosterior(Draws):
    """Draws of v from chains that ran side by side, with what the sampler knew when it made them.

    Every sweep draws v ~ N(w, (C Cᵀ)⁻¹) with a w of its own and the same C (3.1). So the posterior is a mixture of
    Gaussians with one covariance: averages over w, the Gaussian around it integrated out, are Rao–Blackwell estimates.
    """

    weights: Tensor  # (K, chains, draws, R) v
    means: Tensor  # (K, chains, draws, R) w
    factors: Tensor  # (P, R, R) Cholesky factors C of the conditional precisions
    factor_of: Tensor  # (K,) which factor belongs to each column
    link: ClassVar[Link] = PROBIT
    mean: Tensor = field(init=False, repr=False)  # (R, K)
    covariance: Tensor = field(init=False, repr=False)  # (K, R, R) of w

    def __post_init__(self) -> None:
        for name in ("weights", "means", "factors", "factor_of"):
            object.__setattr__(self, name, settled(getattr(self, name)))
        pooled = self.means.flatten(1, 2)
        centred = pooled - pooled.mean(1, keepdim=True)
        object.__setattr__(self, "mean", settled(pooled.mean(1).T))
        object.__setattr__(self, "covariance", centred.mT @ centred / pooled.shape[1])

    def moments(self, phi: Tensor, kappa: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f, each (n, K): φᵀ E w and φᵀ Cov(w) φ + |C⁻¹φ|² + κ."""
        rows = phi.to(self.mean.dtype)
        between = torch.stack([((rows @ part) * rows).sum(1) for part in self.covariance], dim=1)
        within = _spread(self.factors, rows)[:, self.factor_of] + kappa.to(self.mean.dtype)[:, None]
        return rows @ self.mean, between.clamp(min=0.0) + within

    def conditional_probability(self, phi: Tensor, kappa: Tensor, column: int) -> Tensor:
        """P(y* = 1 | w) = cdf(φᵀw / sqrt(1 + κ + |C⁻¹φ|²)) for every draw, (n, chains, draws)."""
        rows = phi.to(self.mean.dtype)
        factor = self.factors[int(self.factor_of[column])]
        scale = torch.sqrt(1.0 + kappa.to(rows.dtype) + whiten(factor, rows.T).square().sum(0))
        scores = (rows / scale[:, None]) @ self.means[column].flatten(0, 1).T
        probability: Tensor = torch.special.ndtr(scores)
        return probability.reshape(len(rows), *self.weights.shape[1:3])

    def to(self, device: torch.device) -> "SamplePosterior":
        """The same posterior on another device."""
        parts = (self.weights, self.means, self.factors, self.factor_of)
        return SamplePosterior(*(part.to(device) for part in parts))


@dataclass(frozen=True)
class SparseSamplePosterior(Draws):
    """Draws of weights most of which are zero: those of the few active columns, and which these are (theory 8).

    Given a draw, f = φᵀv exactly. ``mean`` is not the average of the draws but of their expectations in every sweep
    (Rao–Blackwell): less noisy, and exactly zero where there is no evidence.
    """

    columns: Tensor  # (K, chains, draws, most active) which columns are active, 0 where fewer are
    values: Tensor  # the same shape: their weights, 0 where fewer are
    mean: Tensor  # (R, K)
    link: ClassVar[Link] = PROBIT

    def __post_init__(self) -> None:
        for name in ("columns", "values", "mean"):
            object.__setattr__(self, name, settled(getattr(self, name)))

    @classmethod
    def from_dense(cls, weights: Tensor, means: Tensor) -> "SparseSamplePosterior":
        """From v and its expectation in every sweep, both (K, chains, draws, R)."""
        active = weights != 0
        most = max(1, int(active.sum(-1).max()))
        columns = torch.argsort(active.to(torch.int8), dim=-1, descending=True, stable=True)[..., :most]
        values = weights.gather(-1, columns)
        return cls(columns.masked_fill(values == 0, 0), values, means.mean((1, 2)).T)

    @cached_property
    def weights(self) -> Tensor:  # type: ignore[override]
        """(K, chains, draws, R) v, zeros and all."""
        dense = self.values.new_zeros(*self.values.shape[:-1], len(self.mean))
        return dense.scatter_add_(-1, self.columns, self.values)

    def moments(self, phi: Tensor, kappa: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f, each (n, K); the variance is that of φᵀv over the draws, and κ."""
        rows = phi.to(self.mean.dtype)
        step = max(1, _BLOCK // self.weights.shape[1:3].numel())
        parts = torch.split(rows, step)
        spread = [torch.cat([(some @ v).var(1, correction=0) for some in parts]) for v in self.pooled()]
        return rows @ self.mean, torch.stack(spread, dim=1) + kappa.to(rows.dtype)[:, None]

    def conditional_probability(self, phi: Tensor, kappa: Tensor, column: int) -> Tensor:
        """P(y* = 1 | v) = cdf(φᵀv / sqrt(1 + κ)) for every draw, (n, chains, draws)."""
        rows = phi.to(self.mean.dtype) / torch.sqrt(1.0 + kappa.to(self.mean.dtype))[:, None]
        probability: Tensor = torch.special.ndtr(rows @ self.weights[column].flatten(0, 1).T)
        return probability.reshape(len(rows), *self.values.shape[1:3])

    def to(self, device: torch.device) -> "SparseSamplePosterior":
        """The same posterior on another device."""
        return SparseSamplePosterior(self.columns.to(device), self.values.to(device), self.mean.to(device))


Posterior = GaussianPosterior | SamplePosterior | SparseSamplePosterior


def _spread(factors: Tensor, rows: Tensor) -> Tensor:
    """|C⁻¹φ|² for every row and factor, (n, P)."""
    return torch.stack([whiten(factor, rows.T).square().sum(0) for factor in factors], dim=1)
