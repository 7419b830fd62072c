"""The course of a fit, read back from the axes."""

import matplotlib.pyplot as plt
import numpy as np

from bagwise.plots import BagDisplay, ReliabilityDisplay, TraceDisplay


def test_the_trace_says_how_it_ended(model):
    display = TraceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.ax_.lines[0].get_ydata(), model.trace_.values)
    assert display.ax_.get_ylabel() == "bound"
    assert display.ax_.get_legend().get_texts()[0].get_text() == "not settled after 5 iterations"
    assert "settled after 2" in TraceDisplay([1.0, 2.0]).plot().ax_.get_legend().get_texts()[0].get_text()


def test_displays_draw_on_given_axes(model):
    _, ax = plt.subplots()
    assert ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.4, 0.9], ax=ax).ax_ is ax
    assert TraceDisplay.from_estimator(model, ax=ax).ax_ is ax
    assert BagDisplay.from_predictions([0.5, 0.1], ax=ax).ax_ is ax
    assert len(plt.get_fignums()) == 1
