"""A small problem, and support vector machines by a general solver to compare with."""

import numpy as np
from scipy.optimize import minimize

from bagwise import Bags

GAMMA, C = 0.5, 2.0


PLAIN = {"C": C, "gamma": GAMMA, "standardize": False, "calibration": "slope", "cv": 2, "random_state": 0}


def problem(seed=0, n_bags=12):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, n_bags)
    y = np.arange(n_bags) % 2
    index = np.repeat(np.arange(n_bags), sizes)
    X = rng.normal(size=(sizes.sum(), 2))
    first = np.cumsum(sizes) - sizes
    X[first[y == 1]] += [2.5, 0.0]
    return Bags(X, index), y


def kernel(A, B):
    return np.exp(-GAMMA * ((A[:, None, :] - B[None, :, :]) ** 2).sum(-1))


def reference_svm(gram, sign, margin=None):
    """The dual by a general solver; the intercept from the free examples."""
    margin = np.ones(len(sign)) if margin is None else margin
    Q = gram * np.outer(sign, sign)
    found = minimize(
        lambda a: (0.5 * a @ Q @ a - margin @ a, Q @ a - margin),
        np.full(len(sign), 0.1),
        jac=True,
        method="SLSQP",
        bounds=[(0, C)] * len(sign),
        constraints={"type": "eq", "fun": lambda a: a @ sign, "jac": lambda a: sign},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    alpha = found.x
    free = (alpha > 1e-4) & (alpha < C - 1e-4)
    f = gram @ (alpha * sign)
    return alpha * sign, np.mean((sign * margin - f)[free])


def reference_rows(X, sign):
    weights, intercept = reference_svm(kernel(X, X), sign)
    return lambda new: kernel(new, X) @ weights + intercept


def own_scores(model, bags):
    return model.machines_[0].machine.scores(bags)


def bag_max(values, bags):
    return np.array([values[bags.index == b].max() for b in range(len(bags))])
