"""Goodman's regression by ordinary least squares."""

import numpy as np
import pytest
from scipy import stats
from tests.baselines.totals.precincts import precincts

from bagwise.aggregates import _goodman
from bagwise.baselines import Goodman


def test_goodman_is_least_squares_of_shares_on_shares():
    bags, share, _ = precincts()
    model = Goodman().fit(bags, share)
    x = bags.weight.reshape(-1, 2)[:, 0] / 2000
    line = stats.linregress(x, share)  # all bags are of one size: rates at x = 1 and x = 0
    assert model.rates_ == pytest.approx([line.intercept + line.slope, line.intercept])
    assert model.rates_ == pytest.approx(_goodman(bags, np.asarray(bags.X).argmax(axis=1), share[:, None])[:, 0])
    found = model.predict_rates(bags, share, level=0.9)
    reach = stats.t.ppf(0.95, 78) * line.intercept_stderr
    assert found.overall_upper[1] - found.overall_mean[1] == pytest.approx(reach)
