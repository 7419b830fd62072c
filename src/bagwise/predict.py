"""Instance and bag probabilities from a posterior (theory sections 1.6 and 3.4)."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import qmc
from torch import Tensor

from bagwise.bags import Bags
from bagwise.features import Design, Features
from bagwise.links import Link
from bagwise.mixing import mcse_mean
from bagwise.posterior import Draws, Posterior
from bagwise.special import log_ndtr

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


class PredictionError(NamedTuple):
    """Monte Carlo standard errors of the probabilities of a sampled model, for bags (B, …) and instances (N, …)."""

    bags: Array
    instances: Array


def prediction_error(features: Features, posterior: Draws, bags: Bags) -> PredictionError:
    """How far ``bag_probability`` and ``instance_probability`` may be off because the chains are finite.

    From the spread within and between chains and the autocorrelation along them, (B, K) and (N, K).
    """
    rows = max(1, _BLOCK // posterior.weights.shape[1:3].numel())
    of_bags, of_instances = [], []
    for _, design in features.designs(bags):
        of_bags.append(_columns_of([_bag_errors(design, posterior, k, rows) for k in range(len(posterior.weights))]))
        for phi, kappa in zip(torch.split(design.phi, rows), torch.split(design.kappa, rows), strict=True):
            series = (posterior.conditional_probability(phi, kappa, k) for k in range(len(posterior.weights)))
            of_instances.append(_columns_of([mcse_mean(values.cpu().numpy()) for values in series]))
    return PredictionError(np.concatenate(of_bags), np.concatenate(of_instances))


def _bag_errors(design: Design, posterior: Draws, column: int, rows: int) -> Array:
    scaled = design.phi / torch.sqrt(1.0 + design.kappa)[:, None]
    draws = posterior.weights[column].flatten(0, 1).T.to(scaled.dtype)
    step = max(1, _BLOCK // len(scaled))
    parts = [design.segments.sum(log_ndtr(-(scaled @ some))).double() for some in torch.split(draws, step, dim=1)]
    series = -torch.expm1(torch.cat(parts, dim=1)).reshape(-1, *posterior.weights.shape[1:3])
    return np.concatenate([mcse_mean(some.cpu().numpy()) for some in torch.split(series, rows)])


def _columns_of(columns: list[Array]) -> Array:
    return np.stack(columns, axis=1)


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
