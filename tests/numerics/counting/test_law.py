"""Laws of many bags at once against repeated convolution, bag by bag and column by column."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import norm
from tests.numerics.counting.slow_laws import slow_law

from bagwise.numerics.counting.law import FOURIER_ERROR, LARGEST_TABLE_BAG, summed_count_laws
from bagwise.numerics.links import LOGISTIC, PROBIT

TABLES = [3, 1, 40, 4, 5, LARGEST_TABLE_BAG, 1]
TRANSFORMS = [LARGEST_TABLE_BAG + 1, 150, 400, 145]


@pytest.mark.parametrize("shift", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("sizes", [TABLES, TRANSFORMS, TABLES + TRANSFORMS], ids=["tables", "transforms", "both"])
@pytest.mark.parametrize(("link", "chance"), [(PROBIT, norm.cdf), (LOGISTIC, expit)], ids=["probit", "logistic"])
def test_ragged_bags_have_the_laws_they_have_alone(link, chance, sizes, shift):
    scores = np.random.default_rng(len(sizes)).normal(shift, 1.0, size=(sum(sizes), 3))
    found = summed_count_laws(torch.tensor(scores), torch.tensor(sizes), link).numpy()
    of_bags = np.split(chance(scores), np.cumsum(sizes)[:-1])
    expected = [sum(slow_law(column) for column in of_bag.T) for of_bag in of_bags]
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-11)


def enumerated_law(p):
    law = np.zeros(len(p) + 1)
    for labels in itertools.product([0, 1], repeat=len(p)):
        law[sum(labels)] += np.prod(np.where(labels, p, 1 - p))
    return law


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_small_laws_equal_enumeration(n):
    scores = np.random.default_rng(n).normal(scale=2.0, size=(n, 3))
    law = summed_count_laws(torch.tensor(scores), torch.tensor([n]), PROBIT)
    np.testing.assert_allclose(law, sum(enumerated_law(norm.cdf(z)) for z in scores.T), atol=1e-15)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (-3.0, 1.0), (-4.0, 0.1), (3.0, 2.0), (0.0, 9.0)])
@pytest.mark.parametrize("n", [LARGEST_TABLE_BAG, LARGEST_TABLE_BAG + 1, 300, 1500])
def test_large_laws_equal_repeated_convolution(n, shift, scale):
    scores = np.random.default_rng(n).normal(shift, scale, size=(n, 4))
    law = summed_count_laws(torch.tensor(scores), torch.tensor([n]), PROBIT).numpy()
    assert np.abs(law - sum(slow_law(norm.cdf(z)) for z in scores.T)).sum() < 4 * (FOURIER_ERROR + 1e-13)


def test_columns_of_very_different_spread_share_one_transform():
    """One column sure of 0, one of n, one of the first half, one that knows nothing."""
    n = 1000
    half = np.where(np.arange(n) < n // 2, 40.0, -40.0)
    scores = np.stack([np.full(n, -40.0), np.full(n, 40.0), half, np.zeros(n)], axis=1)
    law = summed_count_laws(torch.tensor(scores), torch.tensor([n]), PROBIT).numpy()
    np.testing.assert_allclose(law[[0, n // 2, n]], [1, 1 + slow_law(np.full(n, 0.5))[n // 2], 1], atol=1e-12)
    assert law.sum() == pytest.approx(4, abs=1e-11)


def test_small_chances_keep_their_digits():
    law = summed_count_laws(torch.full((4, 1), -15.0).double(), torch.tensor([4]), PROBIT).numpy()
    p = norm.cdf(-15.0)
    np.testing.assert_allclose(law, [1.0, 4 * p, 6 * p**2, 4 * p**3, p**4], rtol=1e-13)
