"""The one-norm machine as a linear programme."""

import numpy as np

from bagwise.baselines._base.linear_programme import one_norm_svm


def test_one_norm_machine_is_optimal_among_perturbations():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.where(rng.random(20) < 0.5, 1.0, -1.0)

    def cost(w, b):
        return np.abs(w).sum() + 2.0 * np.maximum(0, 1 - y * (X @ w + b)).sum()

    w, b = one_norm_svm(X, y, 2.0)
    nearby = [cost(w + 0.05 * rng.normal(size=3), b + 0.05 * rng.normal()) for _ in range(200)]
    assert cost(w, b) <= min(nearby)
