"""Bags that have one class out of many, and their instances: probabilities from draws of v (theory section 16).

Given v a bag whose class is in S has class y with probability softmax over S of log(Z1_y/Z0_y), and its instance i
shows class k with probability w_k cdf(f_ik)/Z1_k. Both are averaged over the posterior of v, which is what a bag of the
fit asks for: its own statement is in that posterior already.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Features
from bagwise.gp.latent import LatentBags, Points
from bagwise.gp.posterior import Draws, Posterior
from bagwise.numerics.blocks import blocks
from bagwise.numerics.special import log1mexp, log_ndtr
from bagwise.predict.points import SOBOL_POINTS, Fitted, points_of, sobol_normals

_SMALLEST = 1e-300  # probability of a positive below which all are alike

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def class_points(posterior: Posterior, seed: int) -> Points:
    """Draws of all columns together. Those of a Gaussian posterior are independent: each column has its own order."""
    points = points_of(posterior, seed)
    if isinstance(posterior, Draws):
        return points
    random = np.random.default_rng([seed, 3])
    orders = [torch.from_numpy(random.permutation(points.weights.shape[2])) for _ in points.weights]
    pairs = zip(points.weights, orders, strict=True)
    return points._replace(weights=torch.stack([own[:, order.to(own.device)] for own, order in pairs]))


def bag_class_probability(fitted: Fitted, bags: Bags, table: Flags) -> Array:
    """P(the bag has class y), (B, K + 1) with "none of them" last, its class being one of the candidates."""
    return np.concatenate([weights.exp().mean(2).cpu().numpy() for _, weights in class_draws(fitted, bags, table)])


def instance_class_probability(fitted: Fitted, bags: Bags, table: Flags) -> Array:
    """P(the instance shows class k), (N, K + 1), given that the class of its bag is one of the candidates."""
    parts = []
    for latent, log_w in class_draws(fitted, bags, table):
        columns = [_shown(latent, column, log_w[:, column]) for column in range(latent.n_labels)]
        shown = torch.stack(columns, dim=1)
        none = (1.0 - shown.sum(1, keepdim=True)).clamp(min=0.0)
        parts.append(torch.cat([shown, none], dim=1).cpu().numpy())
    return np.concatenate(parts)


def single_class_probability(features: Features, posterior: Posterior, bags: Bags, seed: int) -> Array:
    """P(the instance has class k), (N, K + 1), every instance by itself.

    As a bag of one that may have any class, or none: the odds of class k are cdf(f_k)/cdf(−f_k), those of none are 1.
    """
    parts = []
    for _, design in features.designs(bags):
        for some in blocks(len(design.phi), _draws_of_row(posterior)):
            f = _latent_draws(posterior, design.phi[some], design.kappa[some], seed)
            odds = torch.nn.functional.pad(log_ndtr(f) - log_ndtr(-f), (0, 0, 0, 1))
            parts.append(torch.softmax(odds, dim=1).mean(2).cpu().numpy())
    return np.concatenate(parts)


def class_information(fitted: Fitted, bags: Bags, table: Flags) -> Array:
    """What the class of a bag would say about v, in nats, (B,): H(E p) − E H(p) over its candidates, as (1.11)."""
    parts = []
    for _, log_w in class_draws(fitted, bags, table):
        p = log_w.exp()
        mean = p.mean(2)
        within = -torch.special.xlogy(p, p).sum(1).mean(1)
        parts.append((-torch.special.xlogy(mean, mean).sum(1) - within).clamp(min=0.0).cpu().numpy())
    return np.concatenate(parts)


def class_draws(fitted: Fitted, bags: Bags, table: Flags) -> Iterator[tuple[LatentBags, Tensor]]:
    """Some whole bags, and log P(class | v) under every draw of v, (b, K + 1, S)."""
    points = class_points(fitted.posterior, fitted.seed)
    K, _, S = points.weights.shape
    for some in blocks(len(bags), K * S):
        start = some.start
        for latent in fitted.latent(bags[some], points):
            stop = start + len(latent.bags)
            allowed = torch.from_numpy(table[start:stop].copy()).to(points.weights.device)
            none = torch.stack([log_none(latent, column) for column in range(K)], dim=1)
            ratio = torch.nn.functional.pad(log1mexp(none) - none, (0, 0, 0, 1))
            yield latent, torch.log_softmax(ratio.masked_fill(~allowed[:, :, None], -torch.inf), dim=1)
            start = stop


def log_none(latent: LatentBags, column: int) -> Tensor:
    """log P(no instance of the bag is positive in a column | v), (b, S)."""
    parts = [
        latent.segments.sum(latent.link.log_probability(-z)) for _, z in latent.scores(column, _turn(latent, column))
    ]
    return torch.cat(parts, dim=1).clamp(max=-_SMALLEST)


def _turn(latent: LatentBags, column: int) -> int:
    """Columns have leftovers of their own: each pairs the draws of v with other draws of them."""
    return latent.points.noise.shape[1] * column // latent.n_labels


def _shown(latent: LatentBags, column: int, log_w: Tensor) -> Tensor:
    """E[w cdf(f)/Z1], (n,)."""
    log_some = log1mexp(log_none(latent, column))
    total = log_w.new_zeros(len(latent.design.phi))
    for some, z in latent.scores(column, _turn(latent, column)):
        weight = latent.segments.spread((log_w - log_some)[:, some])
        total += torch.exp((latent.link.log_probability(z) + weight).clamp(max=0.0)).sum(1)
    return total / log_w.shape[1]


def _draws_of_row(posterior: Posterior) -> int:
    draws = posterior.weights.shape[1:3].numel() if isinstance(posterior, Draws) else SOBOL_POINTS
    return draws * posterior.mean.shape[1]


def _latent_draws(posterior: Posterior, phi: Tensor, kappa: Tensor, seed: int) -> Tensor:
    """Scores of some instances under draws, (n, K, S): P(positive) is their cdf."""
    if isinstance(posterior, Draws):
        rows = phi.double() / torch.sqrt(1.0 + kappa.double())[:, None]
        return torch.stack([rows @ weights for weights in posterior.pooled()], dim=1)
    mean, variance = posterior.moments(phi, kappa)
    normals = sobol_normals(mean.shape[1], seed).to(mean.device)
    return mean[:, :, None] + variance.sqrt()[:, :, None] * normals
