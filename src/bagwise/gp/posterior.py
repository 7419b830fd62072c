"""The posterior of the whitened weights v, and the only derivation of q(f*) from q(v)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from bagwise.numerics.blocks import blocks
from bagwise.numerics.linalg import owned, unwhiten, whiten
from bagwise.numerics.links import LOGISTIC, PROBIT, Link


@dataclass(frozen=True)
class GaussianPosterior:
    """v ~ N(mean_k, (C Cᵀ)⁻¹) for every label column k; columns with the same evidence pattern share one factor C."""

    mean: Tensor  # (R, K)
    factors: Tensor  # (P, R, R), Cholesky factors of the precisions
    factor_of: Tensor  # (K,) which factor belongs to each column
    link: Link  # from f to the probability of a positive

    ARRAYS: ClassVar[tuple[str, ...]] = ("mean", "factors", "factor_of")

    def __post_init__(self) -> None:
        _keep_arrays(self)

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
        parts = []
        for some in blocks(len(phi), self.weights.shape[1:3].numel()):
            columns = range(len(self.weights))
            found = [self.conditional_probability(phi[some], kappa[some], k).mean((1, 2)) for k in columns]
            parts.append(torch.stack(found, dim=1))
        return torch.cat(parts)

    def pooled(self) -> Tensor:
        """(K, R, chains · draws) every draw of v, chain after chain."""
        return self.weights.flatten(1, 2).mT


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

    ARRAYS: ClassVar[tuple[str, ...]] = ("weights", "means", "factors", "factor_of")

    def __post_init__(self) -> None:
        _keep_arrays(self)
        pooled = self.means.flatten(1, 2)
        centred = pooled - pooled.mean(1, keepdim=True)
        object.__setattr__(self, "mean", owned(pooled.mean(1).T))
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
        return SamplePosterior(*(getattr(self, name).to(device) for name in self.ARRAYS))


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

    ARRAYS: ClassVar[tuple[str, ...]] = ("columns", "values", "mean")

    def __post_init__(self) -> None:
        _keep_arrays(self)

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
        parts = [rows[some] for some in blocks(len(rows), self.weights.shape[1:3].numel())]
        spread = [torch.cat([(some @ v).var(1, correction=0) for some in parts]) for v in self.pooled()]
        return rows @ self.mean, torch.stack(spread, dim=1) + kappa.to(rows.dtype)[:, None]

    def conditional_probability(self, phi: Tensor, kappa: Tensor, column: int) -> Tensor:
        """P(y* = 1 | v) = cdf(φᵀv / sqrt(1 + κ)) for every draw, (n, chains, draws)."""
        rows = phi.to(self.mean.dtype) / torch.sqrt(1.0 + kappa.to(self.mean.dtype))[:, None]
        probability: Tensor = torch.special.ndtr(rows @ self.weights[column].flatten(0, 1).T)
        return probability.reshape(len(rows), *self.values.shape[1:3])

    def to(self, device: torch.device) -> "SparseSamplePosterior":
        """The same posterior on another device."""
        return SparseSamplePosterior(*(getattr(self, name).to(device) for name in self.ARRAYS))


@dataclass(frozen=True)
class ExactPosterior:
    """f_c(x) ~ N(k(x, X) w_c, …): the weights, and what the variance needs.

    ``mean`` and ``factors`` are those of v, the whitened values at the pivots (and of the constant): E v_c = Φᵀ w_c is
    exact, the precision I + Φᵀ Σ_c⁻¹ Φ is that of the preconditioner.
    """

    mean: Tensor  # (R, C)
    factors: Tensor  # (C, R, R)
    factor_of: Tensor  # (C,)
    inputs: Tensor  # (n, D) standardised training instances
    weights: Tensor  # (n, C)
    noise: Tensor  # (n, C)
    link: ClassVar[Link] = LOGISTIC  # a class against the others, in a softmax over all

    ARRAYS: ClassVar[tuple[str, ...]] = ("mean", "factors", "factor_of", "inputs", "weights", "noise")

    def __post_init__(self) -> None:
        _keep_arrays(self)

    def to(self, device: torch.device) -> "ExactPosterior":
        """The same posterior on another device."""
        return ExactPosterior(*(getattr(self, name).to(device) for name in self.ARRAYS))


Posterior = GaussianPosterior | SamplePosterior | SparseSamplePosterior


def _spread(factors: Tensor, rows: Tensor) -> Tensor:
    """|C⁻¹φ|² for every row and factor, (n, P)."""
    return torch.stack([whiten(factor, rows.T).square().sum(0) for factor in factors], dim=1)


def _keep_arrays(posterior: Any) -> None:
    """The posterior's own copy of each of its arrays."""
    for name in posterior.ARRAYS:
        object.__setattr__(posterior, name, owned(getattr(posterior, name)))
