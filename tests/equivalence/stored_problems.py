"""Bags that stay in a source, and fits of them."""

import numpy as np

from bagwise import Bags
from bagwise.models import discover

SMALL = {"n_inducing": 8, "random_state": 0}


class Source:
    """Counts how often every row is read."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.times = np.zeros(len(values), dtype=int)

    def read(self, start, stop):
        self.times[start:stop] += 1
        return self.values[start:stop].copy()


def problem(known=False):
    random = np.random.default_rng(3)
    sizes = random.integers(1, 8, 36)
    X = random.standard_normal((sizes.sum(), 3)) * [1.0, 5.0, 0.2]
    owners = np.repeat(np.arange(36), sizes)
    positive = X[:, 0] > 1.0
    y = np.bincount(owners, positive).astype(bool).astype(int)
    z = np.where(np.arange(len(X)) % 9 == 0, positive, np.nan) if known else None
    return Bags(X, owners, known=z), Bags.from_source(Source(X), sizes, known=z), y


def fitted(name, settings, bags, y):
    return discover()[name](**settings).fit(bags, y)
