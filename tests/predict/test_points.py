"""The points that answers are averaged over: those of the model's seed, with the moments of its posterior."""

import numpy as np
import torch

from bagwise.gp.posterior import GaussianPosterior, SamplePosterior
from bagwise.numerics.links import PROBIT
from bagwise.predict.points import NOISE, SOBOL_POINTS, points_of, sobol_normals

WEIGHTS = 3


def gaussian():
    factor = torch.diag(torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64))
    mean = torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    return GaussianPosterior(mean, factor[None], torch.zeros(1, dtype=torch.int64), PROBIT)


def test_points_have_the_moments_of_the_posterior():
    points = points_of(gaussian(), seed=5)
    assert points.weights.shape == (1, WEIGHTS, SOBOL_POINTS)
    np.testing.assert_allclose(points.weights[0].mean(1), [1.0, -2.0, 0.5], atol=0.01)
    np.testing.assert_allclose(points.weights[0].std(1), [1.0, 0.5, 0.25], rtol=0.03)


def test_weights_and_noise_are_independent():
    points = points_of(gaussian(), seed=5)
    together = np.corrcoef(np.concatenate([points.weights[0].numpy(), points.noise.numpy()]))
    across = together[:WEIGHTS, WEIGHTS:]
    assert points.noise.shape == (NOISE, SOBOL_POINTS)
    assert np.abs(across).max() < 0.3


def test_another_seed_has_other_points_and_the_same_seed_the_same():
    made = sobol_normals.__wrapped__  # without those that are kept
    first, again, other = (made(4, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_noise_beside_draws_of_chains_belongs_to_the_seed():
    weights = torch.zeros(1, 2, 5, WEIGHTS, dtype=torch.float64)
    chains = SamplePosterior(weights, weights, torch.eye(WEIGHTS).double()[None], torch.zeros(1, dtype=torch.int64))
    first, again, other = (points_of(chains, seed).noise for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
