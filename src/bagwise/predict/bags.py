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


def both_probabilities(fitted: Fitted, bags: Bags) -> tuple[Array, Array]:
    """P(the bag is positive), (B, K), and P(y* = 1), (N, K), in one pass over the rows."""
    parts = [(fitted.rule.probability(latent), latent.probability) for latent in fitted.latent(bags)]
    of_bags, of_instances = (torch.cat(values).cpu().numpy() for values in zip(*parts, strict=True))
    return of_bags, of_instances


def instance_spread(features: Features, posterior: Posterior, bags: Bags) -> Array:
    """Standard deviation of P(y* = 1 | f) under q(f), (N, K): how far the probability itself is open.

    f is Gaussian with the moments of the posterior; the trapezium rule averages over it.
    """
    z = torch.linspace(-6.0, 6.0, 61, dtype=torch.float64)
    weights = torch.exp(-0.5 * z.square())
    weights = weights / weights.sum()
    parts = []
    for _, design in features.designs(bags):
        mean, variance = (moment.double() for moment in posterior.moments(design.phi, design.kappa))
        f = mean[..., None] + variance.sqrt()[..., None] * z.to(mean.device)
        chance = posterior.link.chances(f)[0]
        centred = chance - (chance @ weights.to(mean.device))[..., None]
        parts.append((centred.square() @ weights.to(mean.device)).sqrt())
    return torch.cat(parts).cpu().numpy()


def part_probability(fitted: Fitted, bags: Bags, of_bags: Array) -> Array:
    """P(the part is positive) of every part, (P, K), by the rule of the model and from the draws that judge bags.

    A part is looked at as what it is, a piece of a bag of that size. Where a bag gets the more probable the more
    instances it has, no part is more probable than its bag (``of_bags``, (B, K)).
    """
    parts = bags.by_part()
    owner = bags.index[parts.offsets[:-1]]
    found = [fitted.rule.probability(latent) for latent in fitted.latent(parts, sizes=bags.totals[owner])]
    chance = torch.cat(found).cpu().numpy()
    return np.minimum(chance, of_bags[owner]) if fitted.rule.grows_with_size else chance


def bag_decision(fitted: Fitted, bags: Bags) -> NDArray[np.bool_]:
    """Whether the bag is called positive, (B, K), as the model's rule decides."""
    return torch.cat([fitted.rule.calls_positive(latent) for latent in fitted.latent(bags)]).cpu().numpy()


def bag_probability(fitted: Fitted, bags: Bags) -> Array:
    """P(the bag is positive), (B, K), as the model's rule has it."""
    return torch.cat([fitted.rule.probability(latent) for latent in fitted.latent(bags)]).cpu().numpy()
