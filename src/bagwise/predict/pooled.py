"""Bag probabilities of models that judge a bag by one score made of its latent values (theory sections 6.1 and 6.4)."""

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.soft_max import Pooling, hard_witness, soft_witness
from bagwise.bags import Bags, as_bags
from bagwise.gp import kernels
from bagwise.gp.features import Design, Features
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.segments import Segments
from bagwise.predict.bags import sobol_normals

_BLOCK = 4_000_000  # entries of one (rows × points) block
_QUASI = 64  # instances of a bag, those of largest mean, whose own noise is quasi-random too

Array = NDArray[np.float64]


def soft_max_probability(
    features: Features, posterior: GaussianPosterior, bags: Bags, seed: int, pooling: Pooling
) -> Array:
    """E P(positive | a(F)) for the soft maximum a of the bag's F = Φ v + N(0, κ), (B, K): quasi-Monte Carlo over v.

    The points that average P(positive | a) also average P(positive | F_i), whose exact value is known; the difference,
    weighted as the soft maximum weights the instances, corrects the estimate, and a bag of one is exact. With the
    published sum the soft maximum is never below an F_i, so neither is the probability.
    """
    R = len(posterior.mean)
    normals = sobol_normals(R + _QUASI, seed).to(posterior.mean.device)
    draws, own = posterior.draws(normals[:R]), normals[R:]
    parts = [
        _soft_max(design, posterior, draws, _rank_noise(design, own, seed), pooling)
        for _, design in features.designs(bags)
    ]
    return torch.cat(parts).cpu().numpy()


def _soft_max(design: Design, posterior: GaussianPosterior, draws: Tensor, own: Tensor, pooling: Pooling) -> Tensor:
    mean, variance = posterior.moments(design.phi, design.kappa)
    exact = posterior.link.expected(mean, variance)
    columns = []
    for column, weights in enumerate(draws):
        noise = own[_ranks(design.segments, mean[:, column], variance[:, column])]
        noise = design.kappa.to(noise.dtype).sqrt()[:, None] * noise
        whole, single = _averages(design, weights, noise, posterior, pooling)
        shares = pooling.weights(mean[:, column], design.segments)
        columns.append(whole + design.segments.sum(shares * (exact[:, column] - single)))
    found = torch.stack(columns, dim=1).clamp(0.0, 1.0)
    return torch.maximum(found, design.segments.max(exact)) if pooling.name == "sum" else found


def _averages(
    design: Design, weights: Tensor, noise: Tensor, posterior: GaussianPosterior, pooling: Pooling
) -> tuple[Tensor, Tensor]:
    """Averages over the points of P(positive | a), per bag, and of P(positive | F_i), per instance."""
    rows, points = design.phi.to(weights.dtype), weights.shape[1]
    step = max(1, _BLOCK // len(rows))
    whole, single = torch.zeros_like(rows[:0].sum()), torch.zeros_like(rows[:0].sum())
    for start in range(0, points, step):
        some = slice(start, start + step)
        F = rows @ weights[:, some] + noise[:, some]
        whole = whole + posterior.link.chances(pooling.score(F, design.segments))[0].sum(1)
        single = single + posterior.link.chances(F)[0].sum(1)
    return whole / points, single / points


def _rank_noise(design: Design, quasi: Tensor, seed: int) -> Tensor:
    """ε for the leftover κ, (largest bag, points): quasi-random for the first places of a bag, random beyond."""
    more = max(0, int(design.segments.sizes.max()) - len(quasi))
    random = np.random.default_rng([seed, 1]).standard_normal((more, quasi.shape[1]))
    return torch.cat([quasi, torch.from_numpy(random).to(quasi)])


def _ranks(segments: Segments, mean: Tensor, variance: Tensor) -> NDArray[np.int64]:
    """The place of every instance in its bag, the largest mean first; noise belongs to places.

    So neither the order of the instances nor the company of other bags matters.
    """
    keys = (-variance.cpu().numpy(), -mean.cpu().numpy(), segments.index.cpu().numpy())
    ranks = np.empty(len(mean), dtype=np.int64)
    ranks[np.lexsort(keys)] = np.arange(len(mean))
    ranks -= np.repeat(segments.offsets[:-1].cpu().numpy(), segments.sizes.cpu().numpy())
    return ranks


def witness_probability(features: Features, posterior: GaussianPosterior, bags: Bags, sharpness: float | None) -> Array:
    """E P(positive | a) for a = Σ P_i F_i ~ N(Pᵀ mean, Pᵀ Cov P), (B, K), with weights as at the end of training.

    P ∝ exp(λ mean) within the bag, λ = ``sharpness``; None puts all weight on the largest mean. As Pᵀ Cov P is the
    variance of a single row Pᵀ Φ with leftover Σ P² κ, the posterior's own moments serve.
    """
    parts = [_witness(features, bags[part], design, posterior, sharpness) for part, design in features.designs(bags)]
    return torch.cat(parts).cpu().numpy()


def _witness(
    features: Features, bags: Bags, design: Design, posterior: GaussianPosterior, sharpness: float | None
) -> Tensor:
    means, _ = posterior.moments(design.phi, design.kappa)
    linear, columns = kernels.is_linear(features.kernel), []
    for column, mean in enumerate(means.T):
        P = witness_weights(mean, design.segments, sharpness)
        pooled = _weighted_row(features, bags, P) if linear else _weighted_design(design, P)
        score, variance = posterior.moments(*pooled)
        columns.append(posterior.link.expected(score[:, column], variance[:, column]))
    return torch.stack(columns, dim=1)


def _weighted_design(design: Design, P: Tensor) -> tuple[Tensor, Tensor]:
    """Pᵀ Φ, and what is left over of independent instances."""
    left = design.segments.sum(P.square() * design.kappa.to(P.dtype))
    return design.segments.sum(P[:, None] * design.phi.to(P.dtype)), left


def _weighted_row(features: Features, bags: Bags, P: Tensor) -> tuple[Tensor, Tensor]:
    """Under a linear kernel Pᵀ F is the latent value of the row Pᵀ X: its features say it all, and exactly."""
    shape = (len(bags), bags.n_instances)
    weights = scipy.sparse.csr_array((P.cpu().numpy(), np.arange(bags.n_instances), bags.offsets), shape=shape)
    designs = [design for _, design in features.designs(as_bags(weights @ bags.X))]
    return torch.cat([design.phi for design in designs]), torch.cat([design.kappa for design in designs])


def witness_weights(mean: Tensor, segments: Segments, sharpness: float | None) -> Tensor:
    """Soft weights, or hard ones without a sharpness."""
    return hard_witness(mean, segments) if sharpness is None else soft_witness(mean, segments, sharpness)


def soft_max_log_negative(
    design: Design, posterior: GaussianPosterior, draws: Tensor, pooling: Pooling
) -> list[Tensor]:
    """log P(the bag is negative | v) for every draw (K, R, S), (b, S) per column.

    What κ leaves open of the score is Σ P² κ in first order, P being its slopes at the mean; it is integrated out.
    """
    means, _ = posterior.moments(design.phi, design.kappa)
    columns = []
    for mean, weights in zip(means.T, draws, strict=True):
        _, left = _weighted_design(design, pooling.weights(mean, design.segments))
        scores = pooling.score(design.phi.to(mean.dtype) @ weights, design.segments)
        columns.append(_log_negative(posterior, scores, left))
    return columns


def witness_log_negative(
    design: Design, posterior: GaussianPosterior, draws: Tensor, sharpness: float | None
) -> list[Tensor]:
    """The same for scores Σ P_i F_i, whose leftover is Σ P² κ exactly."""
    means, _ = posterior.moments(design.phi, design.kappa)
    columns = []
    for mean, weights in zip(means.T, draws, strict=True):
        rows, left = _weighted_design(design, witness_weights(mean, design.segments, sharpness))
        columns.append(_log_negative(posterior, rows @ weights, left))
    return columns


def _log_negative(posterior: GaussianPosterior, scores: Tensor, left: Tensor) -> Tensor:
    return posterior.link.log_probability(-posterior.link.score(scores, left))
