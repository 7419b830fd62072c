"""Instance and bag probabilities from a posterior (theory sections 1.6 and 3.4)."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import qmc
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Design, Features
from bagwise.gp.posterior import Draws, Posterior
from bagwise.numerics.links import Link

SOBOL_POINTS = 512
_BLOCK = 4_000_000  # entries of one (rows × points) block

Array = NDArray[np.float64]


def latent_moments(features: Features, posterior: Posterior, bags: Bags) -> tuple[Array, Array]:
    """Mean and variance of f, each (N, K)."""
    parts = [posterior.moments(design.phi, design.kappa) for _, design in features.designs(bags)]
    mean, variance = (torch.cat(values).cpu().numpy() for values in zip(*parts, strict=True))
    return mean, variance


def instance_probability(features: Features, posterior: Posterior, bags: Bags) -> Array:
    """P(y* = 1), (N, K)."""
    parts = [posterior.probability(design.phi, design.kappa) for _, design in features.designs(bags)]
    return torch.cat(parts).cpu().numpy()


def bag_probability(features: Features, posterior: Posterior, bags: Bags, seed: int) -> Array:
    """P(at least one positive), (B, K): equation (1.10), the dependence of the instances through v included.

    ``seed`` belongs to the fitted model: every bag meets the same points, so its probability never depends on which
    other bags are asked about. The estimate is held between the bounds that the exact probabilities of its instances
    imply, max pᵢ ≤ P ≤ Σ pᵢ, so a bag never contradicts its instances, and a bag of one is exact.
    """
    draws = weight_draws(posterior, seed)
    parts = []
    for _, design in features.designs(bags):
        each = posterior.probability(design.phi, design.kappa)
        least, most = design.segments.max(each), design.segments.sum(each).clamp(max=1.0)
        parts.append(_any_positive(design, draws.to(design.phi.dtype), posterior.link).clamp(least, most))
    return torch.cat(parts).cpu().numpy()


def weight_draws(posterior: Posterior, seed: int) -> Tensor:
    """(K, R, S) draws of v that bag probabilities are averaged over: those of the chains, or quasi-random ones."""
    if isinstance(posterior, Draws):
        return posterior.pooled()
    return posterior.draws(sobol_normals(posterior.mean.shape[0], seed).to(posterior.mean.device))


def sobol_normals(dimension: int, seed: int) -> Tensor:
    """(dimension, SOBOL_POINTS) scrambled Sobol points pushed through the normal quantile."""
    engine = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    points = torch.from_numpy(engine.random(SOBOL_POINTS).T.copy())
    tiny = 2.0**-32  # below half the spacing of 30-bit points: moves only the rare exact 0
    normals: Tensor = torch.special.ndtri(points.clamp(tiny, 1.0 - tiny))
    return normals


def _any_positive(design: Design, draws: Tensor, link: Link) -> Tensor:
    """Average of 1 − Π P(yᵢ = 0 | v) over the draws, (b, K); κᵢ is integrated out, instance by instance."""
    rows = design.phi
    points = max(1, _BLOCK // len(rows))
    columns = []
    for weights in draws:
        total = torch.zeros(len(design.segments), dtype=torch.float64, device=rows.device)
        for block in weights.split(points, dim=1):
            scores = link.score(rows @ block, design.kappa)
            all_negative = design.segments.sum(link.log_probability(-scores))
            total -= torch.expm1(all_negative.double()).sum(1)
        columns.append(total / weights.shape[1])
    return torch.stack(columns, dim=1)
