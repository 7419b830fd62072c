"""A problem of candidates, and quick settings."""

import numpy as np

from bagwise import MIPLGP, Bags

CENTRES = 2.6 * np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])


def problem(n_bags=45, n_false=1, seed=0):
    """Three classes around a crowd of instances of none of them; two instances of its class in every bag of six."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    X = 0.7 * rng.normal(size=(n_bags, 6, 2))
    X[:, :2] = CENTRES[y][:, None] + 0.4 * rng.normal(size=(n_bags, 2, 2))
    table = np.eye(3, dtype=int)[y]
    for row in table:
        row[rng.choice(np.flatnonzero(row == 0), n_false, replace=False)] = 1
    instance_y = np.where(np.arange(6) < 2, y[:, None], 3).ravel()
    return Bags(X.reshape(-1, 2), np.repeat(np.arange(n_bags), 6)), table, y, instance_y


def quick(**settings):
    return MIPLGP(**({"n_rounds": 8, "random_state": 0} | settings))
