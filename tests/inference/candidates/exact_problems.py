"""Kernels and engines of the exact solver."""

import gpytorch
import numpy as np
import torch

from bagwise import Bags
from bagwise.bag_models.dirichlet import CandidateEvidence, Disambiguation, augmented
from bagwise.inference.candidates.exact import ExactRounds, ExactSettings
from bagwise.numerics.segments import Segments


def scaled_matern(variance=6.0, lengthscale=1.1):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    return kernel


def engine_of(n_bags=12, bias=2.0, n_probes=2, seed=0, dtype=torch.float64, kept_bytes=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_bags)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(n_bags), sizes))
    table = np.eye(3, dtype=bool)[np.arange(n_bags) % 3] | np.eye(3, dtype=bool)[(np.arange(n_bags) + 1) % 3]
    chunk = CandidateEvidence(augmented(table, True), bags.offsets).chunk(slice(0, n_bags), dtype, torch.device("cpu"))
    settings = ExactSettings(Disambiguation("dirichlet", 1e-4), 15, n_probes, seed, kept_bytes)
    x = torch.from_numpy(np.array(bags.X)).to(dtype)
    segments = Segments(torch.from_numpy(bags.offsets.copy()))
    return ExactRounds(scaled_matern().to(dtype), x, bias, chunk, segments, settings), x
