"""Linear equations from products alone: against a direct solution, and what happens when products are few."""

import pytest
import torch

from bagwise.numerics.gmres import gmres


def problem(n, seed=0, spread=0.5):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, n, dtype=torch.float64, generator=generator)
    return torch.eye(n, dtype=torch.float64) + spread * noise / n**0.5, torch.randn(
        n, dtype=torch.float64, generator=generator
    )


def product_of(A, calls=None):
    def product(vector):
        if calls is not None:
            calls.append(1)
        return A @ vector

    return product


@pytest.mark.parametrize("n", [1, 2, 7, 60])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e6, 1e100])
def test_gmres_equals_a_direct_solution_whatever_the_scale(n, scale):
    A, b = problem(n)
    found = gmres(product_of(A), scale * b, tol=1e-12, most=n)
    torch.testing.assert_close(found, scale * torch.linalg.solve(A, b), rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_gmres_reaches_the_residual_asked_for_and_stops_there(tol):
    A, b = problem(200)
    calls = []
    found = gmres(product_of(A, calls), b, tol=tol, most=200)
    left = torch.linalg.vector_norm(A @ found - b) / torch.linalg.vector_norm(b)
    assert left <= tol * (1 + 1e-9)
    assert len(calls) < 40


def test_gmres_makes_no_more_products_than_allowed_and_gives_the_best_of_its_space():
    A, b = problem(50, spread=0.9)
    calls = []
    found = gmres(product_of(A, calls), b, tol=1e-15, most=4)
    assert len(calls) == 4
    krylov = torch.stack([torch.linalg.matrix_power(A, k) @ b for k in range(4)], dim=1)
    best = torch.linalg.lstsq(A @ krylov, b[:, None]).solution[:, 0]
    torch.testing.assert_close(found, krylov @ best, rtol=1e-8, atol=1e-10)


def test_gmres_of_nothing_is_nothing_without_a_product():
    assert torch.equal(gmres(lambda _: pytest.fail("a product"), torch.zeros(3), 1e-6, 5), torch.zeros(3))


def test_gmres_stops_when_its_space_is_exhausted():
    b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    calls = []
    found = gmres(product_of(4.0 * torch.eye(3, dtype=torch.float64), calls), b, 0.0, 30)
    torch.testing.assert_close(found, b / 4.0)
    assert len(calls) <= 2
