"""Column moments: as numpy's, in stretches, for sparse rows, and for numbers whose squares are none."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse

from bagwise.gp import moments
from bagwise.gp.moments import column_moments, joined_courses, passed

STORAGES = [np.asarray, scipy.sparse.csr_array, scipy.sparse.csr_matrix]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * (rng.random((50, 4)) < 0.5)
    X[:, 3] += 1.0
    return X


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_column_moments_scale_with_the_numbers_up_to_the_ends_of_double_precision(rows, storage, scale):
    mean, deviation = column_moments(storage(scale * rows))
    np.testing.assert_allclose(mean, scale * rows.mean(0), rtol=1e-12, atol=1e-15 * scale)
    np.testing.assert_allclose(deviation, scale * rows.std(0), rtol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_columns_of_very_different_scale_do_not_disturb_each_other(rows, storage):
    scales = np.array([1e-300, 1e300, 1.0, 1e-10])
    mean, deviation = column_moments(storage(rows * scales))
    np.testing.assert_allclose(mean, scales * rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(deviation, scales * rows.std(0), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_stretches_of_rows_change_no_moment(rows, scale, monkeypatch):
    whole = column_moments(scale * rows)
    monkeypatch.setattr(moments, "_ROWS", 7)
    monkeypatch.setattr(moments, "WINDOW", 14)
    monkeypatch.setattr(moments, "_CACHED", 12)
    for part, expected in zip(column_moments(scale * rows), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12)


def test_windows_seen_by_others_are_joined_to_the_very_course_of_one_pass(rows, monkeypatch):
    monkeypatch.setattr(moments, "_ROWS", 8)
    monkeypatch.setattr(moments, "WINDOW", 16)
    windows = [passed(rows[start : start + 16]) for start in range(0, len(rows), 16)]
    for part, expected in zip(reduce(joined_courses, windows), passed(rows), strict=True):
        assert np.array_equal(part, expected)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7, 1e300, 1e-300])
def test_constant_column_has_deviation_one(storage, value):
    mean, deviation = column_moments(storage(np.full((30, 2), value)))
    np.testing.assert_allclose(mean, value, rtol=1e-15)
    assert np.array_equal(deviation, [1.0, 1.0])


def test_a_large_offset_leaves_the_deviation_its_digits(rows):
    _, deviation = column_moments(rows + 1e8)
    np.testing.assert_allclose(deviation, rows.std(0), rtol=1e-7)


def test_the_given_rows_are_left_as_they_are(rows):
    sparse = scipy.sparse.csr_array(rows)
    before = sparse.copy()
    column_moments(sparse)
    assert (sparse != before).nnz == 0


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
