"""Rows of bags: their products through inducing inputs, dense and sparse."""

import gpytorch
import numpy as np
import pytest
import scipy.sparse
import torch
from tests.inference.laplace.pooled_problems import losses, variance_of
from tests.problems import features_of, random_labels, segments_of

from bagwise import Bags
from bagwise.bag_models.soft_max import WitnessLoss, soft_witness, uniform_weights
from bagwise.inference.laplace.mode import find_mode, log_evidence
from bagwise.inference.laplace.pooled_rows import ExactRows, SparseLinearRows, rows_of


def test_rows_have_the_right_products_with_bias_through_few_or_many_inducing_inputs(problem):
    bags, _ = problem
    segments = segments_of(bags.sizes)
    weights = uniform_weights(segments)
    for R in (4, 30):
        features = features_of(bags, n_inducing=R, bias=3.0)
        phi = torch.from_numpy(features.transform(bags)[0])
        T = segments.sum(weights[:, None] * phi)
        rows = rows_of(features, bags, exact=False)(features.kernel)
        found = rows.rows(weights).detach()
        torch.testing.assert_close(found @ found.T, T @ T.T, rtol=1e-4, atol=1e-4)
        assert found.shape[1] == min(R, len(bags)) + 1


@pytest.fixture
def text():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((60, 200), density=0.05, rng=rng, format="csr")
    groups = np.repeat(np.arange(12), 5)
    return Bags(X, groups), Bags(X.toarray(), groups), torch.from_numpy(random_labels(rng, range(12)))


@pytest.mark.parametrize("standardize", [False, True])
def test_sparse_rows_give_the_products_of_dense_ones(text, standardize):
    sparse, dense, _ = text
    features = features_of(dense, kernel="linear", lengthscale=2.0, standardize=standardize, bias=1.5, jitter=1e-13)
    segments = segments_of(sparse.sizes)
    weights = soft_witness(torch.from_numpy(np.random.default_rng(1).normal(size=60)), segments, 2.0)
    alpha = torch.from_numpy(np.random.default_rng(2).normal(size=12))
    with torch.no_grad():
        rows = rows_of(features, sparse, exact=False)(features.kernel)
        assert isinstance(rows, SparseLinearRows)
        reference = ExactRows(features.kernel, features.standardised(dense.X), segments, 1.5, 1e-13)
        found, expected = rows.rows(weights), reference.rows(weights)
        torch.testing.assert_close(found @ found.T, expected @ expected.T, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(rows.scores(weights, alpha), reference.scores(weights, alpha), rtol=1e-9, atol=1e-9)
        means = segments.sum(weights[:, None] * features.standardised(dense.X))
        torch.testing.assert_close(rows.means(weights), means, rtol=1e-9, atol=1e-9)


def test_gradient_in_the_variance_of_a_linear_kernel(text):
    sparse, _, labels = text
    kernel = variance_of(gpytorch.kernels.LinearKernel(), 2.0)
    features = features_of(sparse, kernel=kernel, lengthscale=None, standardize=False, bias=1.0)
    weights = uniform_weights(segments_of(sparse.sizes))
    loss = WitnessLoss(losses(labels))

    def evidence():
        T = rows_of(features, sparse, exact=False)(kernel).rows(weights)
        return log_evidence(loss, T, find_mode(loss, T.detach(), [torch.zeros_like(T[0]).detach()]).v)

    evidence().backward()
    found = kernel.raw_outputscale.grad.item()
    ends = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            kernel.raw_outputscale += step
            ends.append(evidence().item())
            kernel.raw_outputscale -= step
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)
