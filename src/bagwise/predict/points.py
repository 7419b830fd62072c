"""The points that everything is averaged over: draws of v, the same for every bag, count and query of a model."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Features
from bagwise.gp.latent import LatentBags, Points
from bagwise.gp.posterior import Draws, Posterior

SOBOL_POINTS = 512
NOISE = 64  # dimensions beside those of v


def points_of(posterior: Posterior, seed: int) -> Points:
    """The draws of the chains, or quasi-random ones of a Gaussian posterior, that belong to the model of this seed."""
    device = posterior.mean.device
    if isinstance(posterior, Draws):
        weights = posterior.pooled()
        noise = np.random.default_rng([seed, 2]).standard_normal((NOISE, weights.shape[2]))
        return Points(weights, torch.from_numpy(noise).to(device), seed)
    normals = sobol_normals(len(posterior.mean) + NOISE, seed).to(device)
    return Points(posterior.draws(normals[:-NOISE]), normals[-NOISE:], seed)


def sobol_normals(dimension: int, seed: int) -> Tensor:
    """(dimension, SOBOL_POINTS) scrambled Sobol points pushed through the normal quantile."""
    engine = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    points = torch.from_numpy(engine.random(SOBOL_POINTS).T.copy())
    tiny = 2.0**-32  # below half the spacing of 30-bit points: moves only the rare exact 0
    normals: Tensor = torch.special.ndtri(points.clamp(tiny, 1.0 - tiny))
    return normals


def latent_bags(features: Features, posterior: Posterior, bags: Bags, points: Points) -> Iterator[LatentBags]:
    """The latent values of the bags, a bounded number of rows at a time."""
    for part, design in features.designs(bags):
        yield LatentBags(features, bags[part], design, posterior, points)
