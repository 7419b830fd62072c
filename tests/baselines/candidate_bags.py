"""Bags of three classes with false candidates."""

import numpy as np

from bagwise import Bags


def classes(n_bags=60, seed=0, n_false=1):
    """Three classes, each around a corner of its own, and ``n_false`` false candidates per bag."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    rows = rng.normal(size=(n_bags, 4, 2)) + 3.0 * np.array([[0, 0], [1, 0], [0, 1]])[y][:, None, :]
    table = np.eye(3, dtype=int)[y]
    for row, label in zip(table, y, strict=True):
        row[rng.permutation([c for c in range(3) if c != label])[:n_false]] = 1
    return Bags(rows.reshape(-1, 2), np.repeat(np.arange(n_bags), 4)), table, y
