"""Probabilities of several classes from the moments of their latent functions (theory (7.5) and (7.6))."""

import torch
from torch import Tensor

from bagwise.numerics.segments import Segments
from bagwise.predict.bags import sobol_normals

_BLOCK = 4_000_000  # entries of one (rows × classes × points) block


def class_probability(mean: Tensor, variance: Tensor, seed: int) -> Tensor:
    """E softmax(f), f_c ~ N(mean_c, variance_c) independent, (n, C): (7.5) over one set of quasi-random points.

    ``seed`` belongs to the fitted model: every row meets the same points, so its answer never depends on its company.
    """
    normals = sobol_normals(mean.shape[1], seed).to(mean.device, mean.dtype)  # (C, S)
    rows = max(1, _BLOCK // normals.numel())
    parts = zip(torch.split(mean, rows), torch.split(variance.sqrt(), rows), strict=True)
    return torch.cat([_averaged(centre, spread, normals) for centre, spread in parts])


def _averaged(mean: Tensor, deviation: Tensor, normals: Tensor) -> Tensor:
    draws = mean[:, :, None] + deviation[:, :, None] * normals
    average = torch.softmax(draws, dim=1).mean(2)
    return average / average.sum(1, keepdim=True)


def strongest_class(probability: Tensor, segments: Segments) -> Tensor:
    """The bag's classes by (7.6), (b, q): the largest probability of any instance, as shares of one.

    Where all of them are too small to be told from 0, each class is as probable as the next.
    """
    largest = segments.max(probability.clamp(min=torch.finfo(probability.dtype).tiny))
    return largest / largest.sum(1, keepdim=True)
