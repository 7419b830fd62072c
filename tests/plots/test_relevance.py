"""Relevances of features, read back from the axes."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from tests.plots.drawn import texts

from bagwise import BagGP, MILGPProbit
from bagwise.exceptions import BagDataError
from bagwise.plots import ORANGE, RelevanceDisplay


def test_few_relevances_are_bars_by_rank_and_known_ones_are_marked():
    display = RelevanceDisplay([0.1, 0.6, 0.3], names=["a$b", "b", "c"], relevant=[False, True, False]).plot()
    assert [bar.get_width() for bar in display.ax_.patches] == [0.6, 0.3, 0.1]
    assert to_hex(display.ax_.patches[0].get_facecolor()) == ORANGE
    assert texts(display.ax_) == ["0.60", "b", "0.30", "c", "0.10", "a$b"]


def test_many_relevances_are_points_in_the_order_of_the_columns():
    shares = np.random.default_rng(0).dirichlet(np.ones(60))
    display = RelevanceDisplay(shares, relevant=np.arange(60) < 5).plot()
    others, known = (line.get_ydata() for line in display.ax_.lines[:2])
    np.testing.assert_array_equal(known, shares[:5])
    np.testing.assert_array_equal(others, shares[5:])
    assert display.ax_.get_yscale() == "log"
    plain = RelevanceDisplay(shares).plot(max_features=100)
    assert len(plain.ax_.patches) == 60


def test_relevances_of_a_fitted_model(data):
    bags, y, _ = data
    fitted = BagGP(ard=True, n_inducing=10, random_state=0).fit(bags, y)
    display = RelevanceDisplay.from_estimator(fitted)
    shares = sorted(fitted.relevance_, reverse=True)
    np.testing.assert_allclose([bar.get_width() for bar in display.ax_.patches], shares)
    for unlearned in (BagGP(ard=True, learn=False), MILGPProbit()):
        with pytest.raises(BagDataError, match="has learned no relevances"):
            RelevanceDisplay.from_estimator(unlearned.fit(bags, y))
    with pytest.raises(BagDataError, match="no lengthscales"):
        RelevanceDisplay.from_estimator(BagGP(kernel="linear", learn=False).fit(bags, y))
    with pytest.raises(BagDataError, match="3 features, but 2 names"):
        RelevanceDisplay([0.2, 0.3, 0.5], names=["a", "b"])
