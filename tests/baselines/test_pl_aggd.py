"""PL-AGGD: its steps against brute force and a general solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bagwise.baselines.pl_aggd import _confidences, _graph, onto_simplex, ridge_regression

RNG = np.random.default_rng(0)


def test_projection_onto_the_simplex_is_the_nearest_point():
    allowed = np.array([[True, True, False, True], [False, True, False, False]])
    values = RNG.normal(size=(2, 4))
    found = onto_simplex(values, allowed)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert (found[~allowed] == 0).all()
    nearest = minimize(
        lambda x: ((x - values[0, allowed[0]]) ** 2).sum(),
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    ).x
    assert np.allclose(found[0, allowed[0]], nearest, atol=1e-5)


def test_ridge_regression_minimises_its_objective():
    X, targets = RNG.normal(size=(8, 2)), RNG.normal(size=(8, 1))
    gram = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))

    def cost(flat):
        a, b = flat[:-1, None], flat[-1]
        return ((gram @ a + b - targets) ** 2).sum() + 0.5 * (a * (gram @ a)).sum()

    a, b = ridge_regression(gram, targets, 0.5)
    best = minimize(cost, np.zeros(9), tol=1e-12).fun
    assert cost(np.append(a[:, 0], b)) == pytest.approx(best, rel=1e-5)


def test_graph_and_confidences_lower_what_they_minimise():
    X, table = RNG.normal(size=(10, 3)), np.array([[1, 1, 0], [0, 1, 1]] * 5, dtype=bool)
    near = ~np.eye(10, dtype=bool)
    start = near / 9.0
    weight = _graph(start, near, X @ X.T)
    assert ((X - weight @ X) ** 2).sum() < 0.9 * ((X - start @ X) ** 2).sum()
    assert np.allclose(weight.sum(axis=1), 1.0)
    outputs, belief = RNG.normal(size=(10, 3)), table / 2.0

    def cost(F):
        return ((F - outputs) ** 2).sum() + 2.0 * ((F - weight @ F) ** 2).sum()

    found = _confidences(belief, table, outputs, weight, 2.0)
    assert cost(found) < cost(belief)
    nearby = [onto_simplex(found + 0.05 * RNG.normal(size=found.shape), table) for _ in range(50)]
    assert cost(found) <= min(map(cost, nearby)) + 1e-6
