"""Conjugate gradients: as many products as there are different eigenvalues, for every class at once."""

import copy

import numpy as np
import pytest
import torch
from tests.inference.candidates.exact_problems import engine_of, scaled_matern

from bagwise.bag_models.dirichlet import targets_of
from bagwise.gp import kernels
from bagwise.inference.candidates.conjugate_gradients import LowRank, solve
from bagwise.inference.candidates.kernel_matrix import KernelMatrix, pivoted_cholesky


def test_a_matrix_of_three_eigenvalues_takes_three_products():
    """Steepest descent would take hundreds, the eigenvalues being so far apart."""
    random = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(random.normal(size=(12, 12)))
    K = torch.tensor(rotation @ np.diag(np.repeat([0.0, 30.0, 1000.0], 4)) @ rotation.T)
    noise = torch.ones(12, 2, dtype=torch.float64)
    nothing = LowRank(torch.zeros(12, 1, dtype=torch.float64), noise)
    b = torch.tensor(random.normal(size=(12, 2, 3)))
    found = solve(lambda v: K @ v, nothing, b, tol=1e-8, max_iter=10)
    assert found.iterations == 3
    assert found.residual <= 1e-8
    exact = torch.linalg.solve(K + torch.eye(12), b.reshape(12, -1)).reshape(b.shape)
    torch.testing.assert_close(found.x, exact, rtol=1e-6, atol=1e-8)


def test_every_class_has_its_own_noise():
    random = np.random.default_rng(1)
    root = torch.tensor(random.normal(size=(8, 8)))
    noise = torch.tensor(random.uniform(0.1, 2.0, size=(8, 2)))
    b = torch.tensor(random.normal(size=(8, 2, 1)))
    found = solve(lambda v: root @ root.T @ v, LowRank(root[:, :3], noise), b, tol=1e-10)
    for c in range(2):
        exact = torch.linalg.solve(root @ root.T + torch.diag(noise[:, c]), b[:, c])
        torch.testing.assert_close(found.x[:, c], exact, rtol=1e-6, atol=1e-8)
    assert found.residual == pytest.approx(0.0, abs=1e-9)


def test_the_preconditioner_is_the_inverse_of_its_matrix():
    torch.manual_seed(0)
    phi, noise = 5.0 * torch.randn(30, 4).double(), 0.7 + torch.rand(30, 3).double()
    b = torch.randn(30, 3, 2).double()
    found = LowRank(phi, noise).solve(b)
    for c in range(3):
        back = phi @ (phi.T @ found[:, c]) + noise[:, c, None] * found[:, c]
        torch.testing.assert_close(back, b[:, c], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kept", [None, 0])
def test_a_single_precision_matrix_is_solved_as_a_double_one(kept):
    """With vectors in single precision too it takes twice the iterations here, and more instances never arrive."""
    torch.manual_seed(0)
    x, b = torch.randn(1000, 50).double(), -10.0 * torch.rand(1000, 2, 1).double()
    noise = 0.7 + 8.0 * torch.rand(1000, 2).double()
    kernel, bias = scaled_matern(1000.0, 7.0), 5.0
    dense = kernels.gram(kernel, x).detach() + bias**2
    counts = []
    for dtype in (torch.float64, torch.float32):
        matrix = KernelMatrix(copy.deepcopy(kernel).to(dtype), x.to(dtype), bias, kept)
        phi = torch.cat([pivoted_cholesky(matrix, 40)[0].double(), torch.full((1000, 1), bias).double()], 1)
        solution = solve(matrix.product, LowRank(phi, noise), b, tol=1e-4)
        left = torch.cat([b[:, c] - (dense + noise[:, c].diag()) @ solution.x[:, c] for c in range(2)], 1)
        assert (left.norm(dim=0) / b[:, :, 0].norm(dim=0)).max() < 2e-4
        counts.append(solution.iterations)
    assert counts[1] <= 1.3 * counts[0]


def test_a_solve_that_is_cut_short_says_how_far_it_came():
    engine, _ = engine_of()
    b = torch.ones(*engine.alpha().shape, 1, dtype=torch.float64)
    noise = targets_of(engine.alpha()).noise
    solution = solve(engine._matrix.product, LowRank(engine._phi[:, :1], noise), b, tol=1e-12, max_iter=2)
    assert solution.iterations == 2
    assert solution.residual > 1e-12
    nothing = solve(engine._matrix.product, LowRank(engine._phi, noise), 0 * b, tol=1e-12)
    assert nothing.iterations == 0
    assert (nothing.x == 0).all()
