"""Latent moments, instance probabilities and bag probabilities from a posterior (theory sections 1.6 and 3.4)."""

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.gp.features import Features
from bagwise.gp.posterior import Posterior
from bagwise.predict.points import Fitted

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


def bag_probability(fitted: Fitted, bags: Bags) -> Array:
    """P(the bag is positive), (B, K), as the model's rule has it."""
    return torch.cat([fitted.rule.probability(latent) for latent in fitted.latent(bags)]).cpu().numpy()
