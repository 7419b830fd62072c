"""The reliability diagram, read back from the axes."""

import numpy as np
import pytest

from bagwise.exceptions import BagDataError
from bagwise.metrics import reliability_curve
from bagwise.plots import ReliabilityDisplay, wilson_interval


def test_reliability_draws_the_curve_of_the_predictions(model, data):
    bags, y, _ = data
    display = ReliabilityDisplay.from_estimator(model, bags, y, n_bins=5)
    expected = reliability_curve(y, model.predict_proba(bags)[:, 1], n_bins=5)
    drawn = display.ax_.lines[1]
    np.testing.assert_array_equal(drawn.get_xdata(), expected.mean_predicted)
    np.testing.assert_array_equal(drawn.get_ydata(), expected.observed)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["MILGPProbit"]
    assert display.figure_ is display.ax_.figure


def test_a_label_is_chosen_among_several(two_labels, data):
    bags, y, _ = data
    labels = np.stack([y, 1 - y], axis=1)
    display = ReliabilityDisplay.from_estimator(two_labels, bags, labels, label=1)
    expected = reliability_curve(1 - y, two_labels.predict_proba(bags)[:, 1])
    np.testing.assert_array_equal(display.curve.observed, expected.observed)
    with pytest.raises(BagDataError, match="labels 0 to 1"):
        ReliabilityDisplay.from_estimator(two_labels, bags, labels, label=2)


def test_wilson_interval_against_a_published_value():
    below, above = wilson_interval(np.array([0.0, 0.5]), np.array([10, 10]))
    np.testing.assert_allclose([below[0], above[0]], [0.0, 0.2775], atol=5e-4)
    np.testing.assert_allclose([below[1], above[1]], [0.2366, 0.7634], atol=5e-4)
