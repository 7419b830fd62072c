"""Bags of three classes with candidates."""

import functools

import numpy as np

from bagwise import BagGP, Bags

CENTRES = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -2.0]])
NAMES = np.array(["ant", "bee", "cat"])
FAST = {"learn": False, "n_inducing": 20, "random_state": 0}


def problem(n_bags=36, seed=0, size=4):
    """Bags of four: one or two instances near the centre of their class, the others near none."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    shown = np.arange(n_bags * size) % size < 1 + rng.integers(0, 2, n_bags).repeat(size)
    truth = np.where(shown, y.repeat(size), 3)
    X = rng.normal(0, 0.6, (n_bags * size, 2)) + np.where(shown[:, None], CENTRES[y.repeat(size)], 0.0)
    false = (y + rng.integers(1, 3, n_bags)) % 3
    table = np.zeros((n_bags, 3), dtype=int)
    table[np.arange(n_bags), y] = 1
    table[np.arange(0, n_bags, 2), false[::2]] = 1
    return Bags(X, np.repeat(np.arange(n_bags), size)), table, y, truth


@functools.cache
def new_fitted():
    bags, table, _, _ = problem()
    sets = [set(NAMES[row == 1]) for row in table]
    return BagGP(evidence="candidates", **FAST).fit(bags, sets)
