"""Bags with a fraction of positives, and rows with a label each."""

import numpy as np
from scipy.special import expit

from bagwise import Bags

RNG = np.random.default_rng(0)


def groups(n_bags=30, size=12, seed=0):
    """Two kinds of instances, two apart in both features, and how many of the second kind a bag holds."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n_bags, size)) < rng.random(n_bags)[:, None]
    rows = rng.normal(size=(n_bags * size, 2)) + 2.0 * truth.ravel()[:, None]
    return Bags(rows, np.repeat(np.arange(n_bags), size)), truth.mean(axis=1), truth.ravel().astype(int)


def pure():
    rows = RNG.normal(size=(60, 3))
    return rows, (RNG.random(60) < expit(rows @ [1.0, -1.0, 0.5])).astype(float)
