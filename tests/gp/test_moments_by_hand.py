"""Moments of columns, block by block, whatever their scale."""

import numpy as np
import scipy.sparse

from bagwise.gp import moments


def test_blocks_of_rows_give_the_moments_of_all_rows(monkeypatch):
    monkeypatch.setattr(moments, "_ROWS", 7)
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 3)) * [1.0, 1e3, 1e-6] + np.linspace(0, 5, 40)[:, None]
    for rows in (X, scipy.sparse.csr_matrix(X)):
        mean, deviation = moments.column_moments(rows)
        np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(deviation, X.std(axis=0), rtol=1e-9)


def test_columns_whose_squares_vanish_keep_their_mean_and_deviation():
    X = 5e-158 + 1e-160 * np.arange(10.0)[:, None]
    mean, deviation = moments.column_moments(X)
    np.testing.assert_allclose(mean, 5e-158 + 4.5e-160, rtol=1e-12)
    np.testing.assert_allclose(deviation, 1e-160 * np.std(np.arange(10)), rtol=1e-9)
