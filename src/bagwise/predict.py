"""Instance and bag probabilities from a posterior (theory section 1.6)."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import qmc
from torch import Tensor

from bagwise.bags import Bags
from bagwise.features import Design, Features
from bagwise.posterior import GaussianPosterior
from bagwise.special import log_ndtr

SOBOL_POINTS = 512
_BLOCK = 4_000_000  # entries of one (rows × points) block

Array = NDArray[np.float64]


def latent_moments(features: Features, posterior: GaussianPosterior, bags: Bags) -> tuple[Array, Array]:
    """Mean and variance of f, each (N, K)."""
    parts = [posterior.moments(design.phi, design.kappa) for _, design in features.designs(bags)]
    mean, variance = (torch.cat(values).cpu().numpy() for values in zip(*parts, strict=True))
    return mean, variance


def instance_probability(features: Features, posterior: GaussianPosterior, bags: Bags) -> Array:
    """P(y* = 1), (N, K)."""
    return torch.cat([_positive(design, posterior) for _, design in features.designs(bags)]).cpu().numpy()


def bag_probability(features: Features, posterior: GaussianPosterior, bags: Bags, seed: int) -> Array:
    """P(at least one positive), (B, K): equation (1.10), the dependence of the instances through v included.

    ``seed`` belongs to the fitted model: every bag meets the same points, so its probability never depends on which
    other bags are asked about. The estimate is held between the bounds that the exact probabilities of its instances
    imply, max pᵢ ≤ P ≤ Σ pᵢ, so a bag never contradicts its instances, and a bag of one is exact.
    """
    draws = posterior.draws(sobol_normals(posterior.mean.shape[0], seed).to(posterior.mean.device))
    parts = []
    for _, design in features.designs(bags):
        each = _positive(design, posterior)
        least, most = design.segments.max(each), design.segments.sum(each).clamp(max=1.0)
        parts.append(_any_positive(design, draws.to(design.phi.dtype)).clamp(least, most))
    return torch.cat(parts).cpu().numpy()


def _positive(design: Design, posterior: GaussianPosterior) -> Tensor:
    """cdf(mean / sqrt(1 + var)): equation (1.9), with the root that the paper's print lost."""
    mean, variance = posterior.moments(design.phi, design.kappa)
    probability: Tensor = torch.special.ndtr(mean / torch.sqrt(1.0 + variance))
    return probability


def sobol_normals(dimension: int, seed: int) -> Tensor:
    """(dimension, SOBOL_POINTS) scrambled Sobol points pushed through the normal quantile."""
    engine = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    points = torch.from_numpy(engine.random(SOBOL_POINTS).T.copy())
    tiny = 2.0**-32  # below half the spacing of 30-bit points: moves only the rare exact 0
    normals: Tensor = torch.special.ndtri(points.clamp(tiny, 1.0 - tiny))
    return normals


def _any_positive(design: Design, draws: Tensor) -> Tensor:
    """Average of 1 − Π cdf(−φᵢᵀv / sᵢ) over the draws, sᵢ² = 1 + κᵢ; (b, K)."""
    rows = design.phi / torch.sqrt(1.0 + design.kappa)[:, None]
    points = max(1, _BLOCK // len(rows))
    columns = []
    for weights in draws:
        total = torch.zeros(len(design.segments), dtype=torch.float64, device=rows.device)
        for block in weights.split(points, dim=1):
            all_negative = design.segments.sum(log_ndtr(-(rows @ block)))
            total -= torch.expm1(all_negative.double()).sum(1)
        columns.append(total / weights.shape[1])
    return torch.stack(columns, dim=1)
