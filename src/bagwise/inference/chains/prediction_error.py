"""How far the probabilities of a sampled model may be off because its chains are finite (theory section 3.4)."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.gp.features import Design, Features
from bagwise.gp.posterior import Draws
from bagwise.inference.chains.mixing import mcse_mean
from bagwise.numerics.special import log_ndtr

_BLOCK = 4_000_000  # entries of one (rows × points) block

Array = NDArray[np.float64]


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
