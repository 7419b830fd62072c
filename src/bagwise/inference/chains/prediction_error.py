"""How far the probabilities of a sampled model may be off because its chains are finite (theory section 3.4)."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bag_models.rules import LabelRule
from bagwise.bags import Bags
from bagwise.gp.latent import LatentBags
from bagwise.gp.posterior import Draws
from bagwise.inference.chains.mixing import mcse_mean
from bagwise.numerics.blocks import blocks
from bagwise.predict.points import Fitted

Array = NDArray[np.float64]


class PredictionError(NamedTuple):
    """Monte Carlo standard errors of the probabilities of a sampled model, for bags (B, …) and instances (N, …)."""

    bags: Array
    instances: Array


def prediction_error(fitted: Fitted, bags: Bags) -> PredictionError:
    """How far ``bag_probability`` and ``instance_probability`` of a sampled model may be off, (B, K) and (N, K).

    From the spread within and between chains and the autocorrelation along them.
    """
    of_bags, of_instances = [], []
    for latent in fitted.latent(bags):
        columns = range(latent.n_labels)
        of_bags.append(np.stack([_bag_errors(latent, fitted.rule, k) for k in columns], axis=1))
        of_instances.append(np.stack([_instance_errors(latent, k) for k in columns], axis=1))
    return PredictionError(np.concatenate(of_bags), np.concatenate(of_instances))


def _draws(latent: LatentBags) -> Draws:
    if not isinstance(latent.posterior, Draws):
        raise TypeError("only a posterior that consists of draws has Monte Carlo errors")
    return latent.posterior


def _bag_errors(latent: LatentBags, rule: LabelRule, column: int) -> Array:
    positive = -torch.expm1(rule.log_negative(latent, column))
    series = positive.reshape(-1, *_draws(latent).weights.shape[1:3])
    parts = [mcse_mean(series[some].cpu().numpy()) for some in blocks(len(series), series[0].numel())]
    return np.concatenate(parts)


def _instance_errors(latent: LatentBags, column: int) -> Array:
    phi, kappa, posterior = latent.design.phi, latent.design.kappa, _draws(latent)
    parts = [
        mcse_mean(posterior.conditional_probability(phi[some], kappa[some], column).cpu().numpy())
        for some in blocks(len(phi), posterior.weights.shape[1:3].numel())
    ]
    return np.concatenate(parts)
