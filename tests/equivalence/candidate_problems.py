"""Problems of candidates, and dense solutions of them."""

import gpytorch
import numpy as np
import torch

from bagwise import Bags
from bagwise.bag_models.dirichlet import CandidateEvidence, Disambiguation, augmented
from bagwise.gp.features import make_features
from bagwise.inference.candidates.sparse import Regression, start_step
from bagwise.inference.chunks import in_memory

EPS = 1e-4


def rbf(variance=2.0, lengthscale=0.8):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    return kernel


def problem(n_bags=12, q=3, seed=0, size=(1, 5)):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*size, n_bags)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(n_bags), sizes))
    table = np.zeros((n_bags, q), dtype=int)
    for b, row in enumerate(table):
        row[rng.choice(q, 1 + b % 2, replace=False)] = 1
    table[np.arange(q), np.arange(q)] = 1
    return bags, table


def dense_parts(bags, table, kernel, bias=0.0):
    """K, targets and noise by the formulas of the theory, written out."""
    with torch.no_grad():
        K = kernel(torch.from_numpy(np.array(bags.X))).to_dense() + bias**2
    candidates = torch.from_numpy(augmented(table.astype(bool), True)).double()[torch.from_numpy(np.array(bags.index))]
    alpha = candidates / candidates.sum(1, keepdim=True) + EPS
    noise = torch.log(1 + 1 / alpha)
    return K, torch.log(alpha) - noise / 2, noise


def dense_nll(K, value, noise):
    """(7.7), with its constant."""
    total = torch.zeros((), dtype=torch.float64)
    for c in range(value.shape[1]):
        law = torch.distributions.MultivariateNormal(torch.zeros(len(K), dtype=K.dtype), K + torch.diag(noise[:, c]))
        total = total - law.log_prob(value[:, c])
    return total


def sparse_chunks(bags, table, kernel, n_inducing=None, approximation="fitc", jitter=1e-12):
    features = make_features(
        bags,
        kernel=kernel,
        lengthscale=None,
        bias=0.0,
        n_inducing=n_inducing,
        inducing="kmeans++",
        standardize=False,
        jitter=jitter,
        device=torch.device("cpu"),
        dtype=torch.float64,
        random=np.random.RandomState(0),
    )
    evidence = CandidateEvidence(augmented(table.astype(bool), True), bags.offsets)
    model = Regression(Disambiguation("uniform", EPS), approximation)
    chunks = in_memory(features, bags, evidence)
    chunks.sweep(start_step, model)
    return features, chunks, model
