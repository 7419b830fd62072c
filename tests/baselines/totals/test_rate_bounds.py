"""Bounds of rates hold the truth."""

import numpy as np
import pytest
from tests.baselines.totals.precincts import precincts

from bagwise.aggregates import _bounds
from bagwise.baselines import RateBounds


def test_bounds_hold_the_true_rates_and_are_those_of_group_table():
    bags, share, truth = precincts()
    found = RateBounds().fit(bags, share).predict_rates(bags, share)
    assert (found.lower <= truth + 1e-9).all()
    assert (truth <= found.upper + 1e-9).all()
    member = np.asarray(bags.X).argmax(axis=1)
    least, most = _bounds(bags, member, (share * bags.totals)[:, None])
    assert (found.lower * bags.weight.reshape(-1, 2)).ravel() == pytest.approx(least[:, 0], abs=1e-6)
    assert (found.upper * bags.weight.reshape(-1, 2)).ravel() == pytest.approx(most[:, 0], abs=1e-6)
