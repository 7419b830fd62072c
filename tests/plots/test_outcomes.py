"""Bars of several outcomes."""

import numpy as np
import pytest

from bagwise.exceptions import BagDataError
from bagwise.plots import OutcomesDisplay

STATED = [[0.2, 0.5, 0.3], [np.nan, np.nan, np.nan]]
EXPECTED = [[0.3, 0.5, 0.3], [0.1, 0.1, 0.8]]


def test_bars_of_outcomes_show_expected_shares_above_stated_ones_and_nothing_where_none_is_stated():
    drawn = OutcomesDisplay.from_predictions(STATED, EXPECTED, ["$a", "b"], ["red", "blue", "none"])
    widths = np.array([[bar.get_width() for bar in bars] for bars in drawn.ax_.containers])
    np.testing.assert_allclose(widths[:3].sum(0), 1.0)  # expected shares add up to one
    np.testing.assert_allclose(widths[3:, 0], STATED[0])
    np.testing.assert_allclose(widths[3:, 1], 0.0)
    assert drawn.ax_.get_legend_handles_labels()[1] == ["red", "blue", "none"]


def test_bars_of_outcomes_refuse_shares_of_another_shape():
    with pytest.raises(BagDataError, match="3 outcomes in 2 bags"):
        OutcomesDisplay(STATED[:1], EXPECTED, ["a", "b"], ["red", "blue", "none"])
