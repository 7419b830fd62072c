"""q(f) from q(v): draws of several chains, several factors, weights that are mostly zero."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from bagwise.gp.posterior import GaussianPosterior, SamplePosterior, SparseSamplePosterior
from bagwise.numerics.links import PROBIT
from bagwise.predict.points import points_of

COLUMNS, CHAINS, DRAWS, WEIGHTS = 2, 3, 50, 4


@pytest.fixture
def random():
    return np.random.default_rng(0)


def lower_factors(random, count):
    roots = random.normal(size=(count, WEIGHTS, WEIGHTS))
    return torch.linalg.cholesky(torch.tensor(roots @ roots.transpose(0, 2, 1)) + torch.eye(WEIGHTS))


@pytest.fixture
def sampled(random):
    """Chains that disagree, so that one chain cannot stand for all."""
    offsets = 2.0 * np.arange(CHAINS)[:, None, None]
    means = torch.tensor(random.normal(size=(COLUMNS, CHAINS, DRAWS, WEIGHTS)) + offsets)
    weights = means + torch.tensor(random.normal(size=means.shape))
    return SamplePosterior(weights, means, lower_factors(random, 2), torch.tensor([1, 0]))


@pytest.fixture
def rows(random):
    return torch.tensor(random.normal(size=(5, WEIGHTS))), torch.tensor(random.random(5))


def within(posterior, phi, column):
    factor = posterior.factors[posterior.factor_of[column]]
    return torch.einsum("nr,rs,ns->n", phi, torch.cholesky_inverse(factor), phi).numpy()


def test_every_draw_of_every_chain_is_among_the_points(sampled):
    points = points_of(sampled, seed=0)
    expected = sampled.weights.reshape(COLUMNS, CHAINS * DRAWS, WEIGHTS).transpose(1, 2)
    assert torch.equal(points.weights, expected)
    assert points.noise.shape[1] == CHAINS * DRAWS


def test_moments_of_chains_are_those_of_the_mixture(sampled, rows):
    phi, kappa = rows
    mean, variance = sampled.moments(phi, kappa)
    for column in range(COLUMNS):
        centres = phi.numpy() @ sampled.means[column].reshape(-1, WEIGHTS).numpy().T
        np.testing.assert_allclose(mean[:, column], centres.mean(axis=1))
        expected = centres.var(axis=1) + within(sampled, phi, column) + kappa.numpy()
        np.testing.assert_allclose(variance[:, column], expected)


def test_probability_of_chains_averages_over_all_of_them(sampled, rows):
    phi, kappa = rows
    found = sampled.probability(phi, kappa)
    for column in range(COLUMNS):
        centres = phi.numpy() @ sampled.means[column].reshape(-1, WEIGHTS).numpy().T
        scale = np.sqrt(1.0 + kappa.numpy() + within(sampled, phi, column))
        np.testing.assert_allclose(found[:, column], norm.cdf(centres / scale[:, None]).mean(axis=1))


def test_draws_of_a_gaussian_follow_the_factor_of_their_column(random):
    mean, factors = torch.tensor(random.normal(size=(WEIGHTS, COLUMNS))), lower_factors(random, 2)
    posterior = GaussianPosterior(mean, factors, torch.tensor([1, 0]), PROBIT)
    normals = torch.tensor(random.normal(size=(WEIGHTS, 6)))
    for column, factor in enumerate((factors[1], factors[0])):
        expected = mean[:, [column]] + torch.linalg.inv(factor).T @ normals
        torch.testing.assert_close(posterior.draws(normals)[column], expected)


def test_sparse_draws_keep_their_weights_and_the_mean_of_their_expectations(random):
    weights = torch.tensor(random.normal(size=(COLUMNS, CHAINS, DRAWS, WEIGHTS)) * (random.random(WEIGHTS) < 0.6))
    means = weights + 1.0
    posterior = SparseSamplePosterior.from_dense(weights, means)
    torch.testing.assert_close(posterior.weights, weights)
    torch.testing.assert_close(posterior.mean, means.mean((1, 2)).T)
