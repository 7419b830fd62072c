"""A linear machine with a small sum of absolute weights, by linear programming."""

import numpy as np
from scipy.optimize import linprog

from bagwise.baselines._base.machines import Floats
from bagwise.exceptions import NumericalError


def one_norm_svm(features: Floats, y: Floats, C: Floats | float) -> tuple[Floats, float]:
    """Minimise Σ|w_k| + Σ_i C_i max(0, 1 - y_i (w·x_i + b)) for y of -1 and 1: w and b.

    As a linear programme in w = p - q with p, q ≥ 0, b and slacks ξ ≥ 0: y_i ((p - q)·x_i + b) + ξ_i ≥ 1.
    """
    n, k = features.shape
    signed = y[:, None] * features
    inequality = -np.concatenate([signed, -signed, y[:, None], np.eye(n)], axis=1)
    cost = np.concatenate([np.ones(2 * k), [0.0], np.broadcast_to(C, n)])
    bounds = [(0.0, None)] * (2 * k) + [(None, None)] + [(0.0, None)] * n
    found = linprog(cost, A_ub=inequality, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if found.x is None:
        raise NumericalError(f"the linear programme could not be solved ({found.message}); standardise the rows.")
    return found.x[:k] - found.x[k : 2 * k], float(found.x[2 * k])
