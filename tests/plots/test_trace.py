"""The course of a fit, read back from the axes."""

import numpy as np

from bagwise.plots import TraceDisplay


def test_the_trace_says_how_it_ended(model):
    display = TraceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.ax_.lines[0].get_ydata(), model.trace_.values)
    assert display.ax_.get_ylabel() == "bound"
    assert display.ax_.get_legend().get_texts()[0].get_text() == "not settled after 5 iterations"
    assert "settled after 2" in TraceDisplay([1.0, 2.0]).plot().ax_.get_legend().get_texts()[0].get_text()
