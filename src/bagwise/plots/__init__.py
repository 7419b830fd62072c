"""Displays in the manner of scikit-learn: made ``from_predictions`` or ``from_estimator``, drawn by ``plot(ax)``."""

from bagwise.plots._style import BLUE, CURVES, GREY, ORANGE, PALE, open_frame, plain_legend
from bagwise.plots.bag import BagDisplay, as_images, scaled
from bagwise.plots.confusion import ConfusionDisplay
from bagwise.plots.decision_map import DecisionMapDisplay
from bagwise.plots.fraction import FractionDisplay
from bagwise.plots.heatmap import HeatmapDisplay
from bagwise.plots.outcomes import OutcomesDisplay
from bagwise.plots.rates import RatesDisplay, TomographyDisplay
from bagwise.plots.relevance import RelevanceDisplay
from bagwise.plots.reliability import ReliabilityDisplay, wilson_interval
from bagwise.plots.trace import TraceDisplay

__all__ = [
    "BLUE",
    "CURVES",
    "GREY",
    "ORANGE",
    "PALE",
    "BagDisplay",
    "ConfusionDisplay",
    "DecisionMapDisplay",
    "FractionDisplay",
    "HeatmapDisplay",
    "OutcomesDisplay",
    "RatesDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "TomographyDisplay",
    "TraceDisplay",
    "as_images",
    "open_frame",
    "plain_legend",
    "scaled",
    "wilson_interval",
]
