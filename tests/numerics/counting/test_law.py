"""Laws of many bags at once against repeated convolution, bag by bag and column by column."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import norm

from bagwise.numerics.counting.law import LARGEST_TABLE_BAG, summed_count_laws
from bagwise.numerics.links import LOGISTIC, PROBIT

TABLES = [3, 1, 40, 4, 5, LARGEST_TABLE_BAG, 1]
TRANSFORMS = [LARGEST_TABLE_BAG + 1, 150, 400, 145]


def slow_law(p):
    law = np.ones(1)
    for chance in p:
        law = np.convolve(law, [1 - chance, chance])
    return law


@pytest.mark.parametrize("shift", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("sizes", [TABLES, TRANSFORMS, TABLES + TRANSFORMS], ids=["tables", "transforms", "both"])
@pytest.mark.parametrize(("link", "chance"), [(PROBIT, norm.cdf), (LOGISTIC, expit)], ids=["probit", "logistic"])
def test_ragged_bags_have_the_laws_they_have_alone(link, chance, sizes, shift):
    scores = np.random.default_rng(len(sizes)).normal(shift, 1.0, size=(sum(sizes), 3))
    found = summed_count_laws(torch.tensor(scores), torch.tensor(sizes), link).numpy()
    of_bags = np.split(chance(scores), np.cumsum(sizes)[:-1])
    expected = [sum(slow_law(column) for column in of_bag.T) for of_bag in of_bags]
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-11)
