"""The design of bags and the kernels behind it: one answer, whichever way it is computed."""

import math

import numpy as np
import pytest
import scipy.sparse
import torch
from gpytorch import kernels as k
from tests.problems import features_of, random_bags

from bagwise.gp import kernels
from bagwise.gp.feature_maps import MLP
from bagwise.gp.features import traced_design


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0), n_bags=6, n_features=3)


def test_the_constant_explains_nothing_of_the_kernel(bags):
    features = features_of(bags, n_inducing=4, bias=3.0)
    phi, kappa = features.transform(bags)
    np.testing.assert_array_equal(phi[:, -1], 3.0)
    np.testing.assert_allclose(np.square(phi[:, :-1]).sum(axis=1) + kappa, 1.0, rtol=1e-9)


def test_sparse_rows_under_a_linear_kernel_have_the_features_of_dense_ones(bags):
    shifted = bags.with_features(bags.X + 2.0)
    dense = features_of(shifted, kernel="linear", n_inducing=2)
    sparse = shifted.with_features(scipy.sparse.csr_matrix(shifted.X))
    for found, expected in zip(dense.transform(sparse), dense.transform(shifted), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_rows_are_standardised_by_the_moments_of_the_fit(bags):
    shifted = bags.with_features(3.0 * bags.X + 2.0)
    expected = (shifted.X - shifted.X.mean(axis=0)) / shifted.X.std(axis=0)
    np.testing.assert_allclose(features_of(shifted).standardised(shifted.X), expected, atol=1e-12)


def test_features_to_learn_from_are_the_features_of_the_fit(bags):
    features = features_of(bags, n_inducing=5, bias=2.0, jitter=0.05).with_sizes(bags.sizes)
    ((_, design),) = features.designs(bags)
    sizes = features.log_sizes(bags.sizes)
    x = features.standardised(bags.X)
    traced = traced_design(features, features.kernel, features.inducing, x, design.segments, sizes)
    torch.testing.assert_close(traced.phi.detach(), design.phi)
    torch.testing.assert_close(traced.kappa.detach(), design.kappa)


def test_sizes_beyond_the_fit_count_as_the_nearest_size_of_the_fit(bags):
    found = features_of(bags).with_sizes(np.array([2, 5])).log_sizes(np.array([1, 3, 50]))
    np.testing.assert_allclose(found, np.log([2, 3, 5]))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_pairs_of_rows_have_the_kernel_of_the_whole_matrix(name):
    rows = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    kernel = kernels.trainable_kernel(name, 3, None, 2.5, False)
    expected = kernels.cross(kernel, rows[0], rows[1]).diagonal()
    torch.testing.assert_close(kernels.pairs(kernel, rows[0], rows[1]), expected)


@pytest.mark.parametrize("name", ["rbf", "linear", "rbf+linear"])
def test_a_kernel_to_be_learned_begins_with_its_variance_on_standardised_rows(name):
    """Of length √D, as standardised rows have on average; the lengthscale is √D, too."""
    rows = torch.full((1, 4), 1.0, dtype=torch.float64)
    kernel = kernels.trainable_kernel(name, 4, None, 8.0, False)
    assert kernels.diagonal(kernel, rows).item() == pytest.approx(8.0)
    across = kernels.make_kernel("rbf", 4, None, torch.float64)
    assert kernels.cross(across, rows, -rows).item() == pytest.approx(math.exp(-0.5 * 16.0 / 4.0))


def test_short_lengthscales_are_relevant():
    kernel = k.RBFKernel(ard_num_dims=2).double()
    kernel.lengthscale = torch.tensor([[0.5, 2.0]])
    np.testing.assert_allclose(kernels.relevance(kernel, 2), [16 / 17, 1 / 17])


def test_networks_of_different_seeds_differ():
    weights = [MLP(2, (3,), 1, seed=seed).layers[0].weight for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
