"""SURE: confidences against a grid."""

import numpy as np
import pytest

from bagwise.baselines.sure import confidences

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("sharpness", [0.0, 0.3, 1.0, 3.0])
def test_confidences_of_sure_are_the_best_of_a_grid(sharpness):
    outputs = RNG.normal(scale=0.6, size=(6, 3))
    table = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1]], dtype=bool)
    steps = np.arange(101) / 100
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b < 1 + 1e-9])
    found = confidences(outputs, table, sharpness)
    assert np.allclose(found.sum(axis=1), 1.0)
    for row, allowed, p in zip(outputs, table, found, strict=True):
        points = grid[(np.abs(grid[:, ~allowed]) < 1e-9).all(axis=1)]
        cost = ((points - row) ** 2).sum(axis=1) - sharpness * points.max(axis=1)
        assert ((p - row) ** 2).sum() - sharpness * p.max() <= cost.min() + 1e-9
