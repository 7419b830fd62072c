"""Pivots of a kernel matrix."""

import numpy as np
import torch
from tests.inference.candidates.exact_problems import scaled_matern

from bagwise.gp import kernels
from bagwise.inference.candidates.kernel_matrix import KernelMatrix, pivoted_cholesky


def test_pivots_make_the_whitened_features_of_their_instances():
    """ΦΦᵀ of the pivoted Cholesky factor is k(X, Z) k(Z, Z)⁻¹ k(Z, X) with the pivots as Z."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 2)))
    matrix = KernelMatrix(scaled_matern(), x, 0.0)
    phi, pivots = pivoted_cholesky(matrix, 9)
    full = kernels.gram(scaled_matern(), x).detach()
    low = full[:, pivots] @ torch.linalg.solve(full[pivots][:, pivots], full[pivots])
    torch.testing.assert_close(phi @ phi.T, low, rtol=0, atol=1e-8)


def test_repeated_instances_run_out_of_pivots_quietly():
    x = torch.zeros(6, 2, dtype=torch.float64)
    phi, _ = pivoted_cholesky(KernelMatrix(scaled_matern(), x, 0.0), 4)
    np.testing.assert_allclose(phi @ phi.T, 6.0 * np.ones((6, 6)))
    assert (phi[:, 1:] == 0).all()
