"""Displays draw on the axes they are given."""

import matplotlib.pyplot as plt

from bagwise.plots import BagDisplay, ReliabilityDisplay, TraceDisplay


def test_displays_draw_on_given_axes(model):
    _, ax = plt.subplots()
    assert ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.4, 0.9], ax=ax).ax_ is ax
    assert TraceDisplay.from_estimator(model, ax=ax).ax_ is ax
    assert BagDisplay.from_predictions([0.5, 0.1], ax=ax).ax_ is ax
    assert len(plt.get_fignums()) == 1
