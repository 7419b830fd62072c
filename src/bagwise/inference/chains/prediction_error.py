"""How far the probabilities of a sampled model may be off because its chains are finite (theory section 3.4)."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bag_models.rules import LabelRule
from bagwise.bags import Bags
from bagwise.gp.features import Features
from bagwise.gp.latent import LatentBags
from bagwise.gp.posterior import Draws, SamplePosterior, SparseSamplePosterior
from bagwise.inference.chains.mixing import mcse_mean
from bagwise.numerics.blocks import blocks
from bagwise.predict.points import latent_bags, points_of

Array = NDArray[np.float64]
Chained = SamplePosterior | SparseSamplePosterior


class PredictionError(NamedTuple):
    """Monte Carlo standard errors of the probabilities of a sampled model, for bags (B, …) and instances (N, …)."""

    bags: Array
    instances: Array


def prediction_error(features: Features, posterior: Chained, rule: LabelRule, bags: Bags, seed: int) -> PredictionError:
    """How far ``bag_probability`` and ``instance_probability`` may be off, (B, K) and (N, K).

    From the spread within and between chains and the autocorrelation along them.
    """
    of_bags, of_instances = [], []
    for latent in latent_bags(features, posterior, bags, points_of(posterior, seed)):
        columns = range(latent.n_labels)
        of_bags.append(np.stack([_bag_errors(latent, posterior, rule, k) for k in columns], axis=1))
        of_instances.append(np.stack([_instance_errors(latent, posterior, k) for k in columns], axis=1))
    return PredictionError(np.concatenate(of_bags), np.concatenate(of_instances))


def _bag_errors(latent: LatentBags, posterior: Draws, rule: LabelRule, column: int) -> Array:
    positive = -torch.expm1(rule.log_negative(latent, column))
    series = positive.reshape(-1, *posterior.weights.shape[1:3])
    parts = [mcse_mean(series[some].cpu().numpy()) for some in blocks(len(series), series[0].numel())]
    return np.concatenate(parts)


def _instance_errors(latent: LatentBags, posterior: Draws, column: int) -> Array:
    phi, kappa = latent.design.phi, latent.design.kappa
    parts = [
        mcse_mean(posterior.conditional_probability(phi[some], kappa[some], column).cpu().numpy())
        for some in blocks(len(phi), posterior.weights.shape[1:3].numel())
    ]
    return np.concatenate(parts)
