"""Rows are standardised as the training rows are."""

import numpy as np
import pytest
import scipy.sparse
from tests.problems import features_of, random_bags

from bagwise import BagDataError, Bags
from bagwise.gp.ground import is_sparse
from bagwise.gp.moments import column_moments


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0), n_bags=12, n_features=3)


def make(bags, **changes):
    return features_of(bags, kernel="rbf", lengthscale=None, **changes)


def test_shift_and_scale_are_stored_and_used(bags):
    made = make(bags)
    np.testing.assert_allclose(made.shift.numpy(), bags.X.mean(axis=0))
    np.testing.assert_allclose(made.scale.numpy(), bags.X.std(axis=0))
    other = Bags(bags.X * [10.0, 0.1, 1e5] - 7.0, bags.index)
    np.testing.assert_allclose(make(other).transform(other)[0], made.transform(bags)[0], atol=1e-6)
    raw = make(bags, standardize=False)
    assert raw.shift.tolist() == [0.0] * 3
    assert raw.scale.tolist() == [1.0] * 3


@pytest.mark.parametrize("turn", [np.asarray, scipy.sparse.csr_matrix])
def test_constant_columns_have_scale_one(turn):
    X = np.column_stack([np.arange(5.0), np.full(5, 1e8), np.zeros(5), np.full(5, 0.1)])
    shift, scale = column_moments(turn(X))
    np.testing.assert_allclose(shift, [2.0, 1e8, 0.0, 0.1])
    np.testing.assert_allclose(scale, [np.sqrt(2.0), 1.0, 1.0, 1.0])


def test_numbers_too_large_to_standardise_name_the_column(bags):
    X = np.array(bags.X)
    X[:2, 1] = 1.7e308, -1.7e308
    with pytest.raises(BagDataError, match="column 'v' holds numbers too large"):
        make(Bags(X, bags.index, feature_names=["u", "v", "w"]))


@pytest.mark.parametrize(
    ("width", "zeros", "sparse"), [(1000, 0.97, True), (1000, 0.7, False), (300, 0.97, False)], ids=str
)
def test_rows_count_as_sparse_where_very_many_columns_are_mostly_zero(width, zeros, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, width)) * (rng.random((30, width)) >= zeros)
    assert is_sparse(Bags(X, np.repeat(np.arange(10), 3))) is sparse
