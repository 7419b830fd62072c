"""Fractions and what was stated of them."""

import numpy as np
import pytest

from bagwise.exceptions import BagDataError
from bagwise.plots import FractionDisplay
from bagwise.predict.counts import FractionSummary


def test_fraction_display_draws_stated_shares_and_counts_those_inside():
    stated = np.array([0.2, 0.9, np.nan])
    expected = FractionSummary(np.array([0.3, 0.5, 0.4]), np.array([0.1, 0.4, 0.2]), np.array([0.5, 0.6, 0.6]))
    display = FractionDisplay(stated, expected).plot()
    assert display.coverage == 0.5
    inside, missed = display.ax_.collections[1], display.ax_.collections[3]
    np.testing.assert_allclose(inside.get_offsets(), [[0.2, 0.3]])
    np.testing.assert_allclose(missed.get_offsets(), [[0.9, 0.5]])
    with pytest.raises(BagDataError, match="one share per bag"):
        FractionDisplay(stated[:2], expected)
