"""Conjugate gradients: as many products as there are different eigenvalues, for every class at once."""

import numpy as np
import pytest
import torch

from bagwise.inference.candidates.conjugate_gradients import LowRank, solve


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
