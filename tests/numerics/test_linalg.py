"""The one Cholesky says what it needed, and refuses what cannot be factored."""

import numpy as np
import pytest
import torch

from bagwise.exceptions import NumericalError
from bagwise.numerics.linalg import cholesky, gmres, logdet, owned, squared_lengths, unwhiten, weighted_gram, whiten


@pytest.fixture
def positive():
    A = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return A @ A.T


def test_a_good_matrix_needs_no_jitter(positive):
    factor = cholesky(positive)
    assert factor.jitter == 0.0
    torch.testing.assert_close(factor.lower @ factor.lower.T, positive)
    assert torch.equal(factor.lower, factor.lower.tril())


def test_the_jitter_asked_for_is_relative_to_the_mean_diagonal(positive):
    factor = cholesky(positive, jitter=0.01)
    expected = positive + 0.01 * positive.diagonal().mean() * torch.eye(6, dtype=torch.float64)
    assert factor.jitter == 0.01
    torch.testing.assert_close(factor.lower @ factor.lower.T, expected)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_a_singular_matrix_reports_the_jitter_it_needed_whatever_its_scale(scale):
    column = torch.linspace(1.0, 2.0, 5, dtype=torch.float64)[:, None]
    singular = scale * (column @ column.T - 1e-9 * torch.eye(5, dtype=torch.float64))
    factor = cholesky(singular, jitter=1e-12)
    assert 1e-12 < factor.jitter <= 1e-8
    expected = singular + factor.jitter * singular.diagonal().mean() * torch.eye(5, dtype=torch.float64)
    torch.testing.assert_close(factor.lower @ factor.lower.T, expected, rtol=1e-10, atol=0)


def test_zero_is_factored_by_its_jitter():
    factor = cholesky(torch.zeros(2, 2, dtype=torch.float64), jitter=1e-6)
    torch.testing.assert_close(factor.lower, 1e-3 * torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    A = torch.eye(3, dtype=torch.float64)
    A[1, 2] = bad
    with pytest.raises(NumericalError, match="kernel matrix holds values that are not finite"):
        cholesky(A, what="kernel matrix")


def test_an_indefinite_matrix_is_refused_with_the_last_jitter_tried():
    with pytest.raises(NumericalError, match=r"precision \(2 x 2\) is not positive definite, even with jitter 1e-02"):
        cholesky(torch.tensor([[1.0, 3.0], [3.0, 1.0]], dtype=torch.float64), jitter=1e-6, what="precision")


def test_solves_and_log_determinant(positive):
    lower = cholesky(positive).lower
    b = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(lower @ whiten(lower, b), b)
    torch.testing.assert_close(lower.T @ unwhiten(lower, b), b)
    torch.testing.assert_close(logdet(lower), torch.logdet(positive))
    stack = torch.stack([lower, 2.0 * lower])
    torch.testing.assert_close(logdet(stack), torch.stack([torch.logdet(positive), torch.logdet(4.0 * positive)]))


def test_owned_is_a_copy_with_rows_together():
    A = torch.arange(6.0).reshape(2, 3).T
    copy = owned(A)
    assert copy.is_contiguous()
    assert torch.equal(copy, A)
    assert copy.data_ptr() != A.data_ptr()


@pytest.mark.parametrize("columns", [1, 2, 7, 60])
@pytest.mark.parametrize("rows", [1, 1024, 2500])
def test_products_in_stretches_equal_plain_products(rows, columns):
    rng = np.random.default_rng(rows + columns)
    A, w = torch.tensor(rng.normal(size=(rows, columns))), torch.tensor(rng.random(rows))
    lower = torch.tril(torch.tensor(rng.normal(size=(columns, columns))))
    torch.testing.assert_close(weighted_gram(A, w), A.T @ (w[:, None] * A), rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(weighted_gram(A, w), weighted_gram(A, w).T, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(squared_lengths(A, lower), (A @ lower.T).square().sum(1), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-12])
def test_gmres_solves_to_its_tolerance_in_few_products(tolerance):
    rng = np.random.default_rng(0)
    A = torch.tensor(np.eye(30) + 0.1 * rng.normal(size=(30, 30)))  # not symmetric
    b, products = torch.tensor(rng.normal(size=30)), []

    def product(v):
        products.append(v)
        return A @ v

    found = gmres(product, b, tolerance, 30)
    assert float(torch.linalg.vector_norm(A @ found - b)) <= 1.01 * tolerance * float(torch.linalg.vector_norm(b))
    assert len(products) < 30 or tolerance < 1e-6


def test_gmres_of_nothing_is_nothing():
    assert gmres(lambda v: v, torch.zeros(3), 1e-3, 5).tolist() == [0.0, 0.0, 0.0]
