"""Probabilities of several classes from the moments of their latent functions (theory (7.5))."""

import torch
from torch import Tensor

from bagwise.numerics.blocks import blocks
from bagwise.predict.points import sobol_normals


def class_probability(mean: Tensor, variance: Tensor, seed: int) -> Tensor:
    """E softmax(f), f_c ~ N(mean_c, variance_c) independent, (n, C): (7.5) over one set of quasi-random points.

    ``seed`` belongs to the fitted model: every row meets the same points, so its answer never depends on its company.
    """
    normals = sobol_normals(mean.shape[1], seed).to(mean.device, mean.dtype)  # (C, S)
    spread = variance.sqrt()
    return torch.cat([_averaged(mean[some], spread[some], normals) for some in blocks(len(mean), normals.numel())])


def _averaged(mean: Tensor, deviation: Tensor, normals: Tensor) -> Tensor:
    draws = mean[:, :, None] + deviation[:, :, None] * normals
    average = torch.softmax(draws, dim=1).mean(2)
    return average / average.sum(1, keepdim=True)
