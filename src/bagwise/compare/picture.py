"""The picture of a comparison: how good every model is, and how far the others are behind the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bagwise.bench.render import in_words
from bagwise.compare.measures import sign_of
from bagwise.compare.result import ComparisonResult
from bagwise.plots import BLUE, GREY, PALE, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_comparison(result: ComparisonResult) -> Figure:
    """Left: every fold, mean and standard error. Right: difference to the best model, with its 95 % interval."""
    from matplotlib.figure import Figure

    shown = [name for name in result.names if len(result.values(name))]
    shown.sort(key=lambda name: sign_of(result.metric) * result.mean(name).mean)
    figure = Figure(figsize=(8.6, 1.5 + 0.42 * len(shown)), layout="constrained", dpi=130)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.25, 1))
    _draw_means(left, result, shown)
    _draw_differences(right, result, shown)
    return figure


def _draw_means(ax: Axes, result: ComparisonResult, shown: list[str]) -> None:
    for height, name in enumerate(shown):
        values, entry = result.values(name), result.mean(name)
        colour = BLUE if name == result.best else GREY
        ax.scatter(values, np.full(len(values), height), s=12, color=PALE, zorder=1)
        ax.errorbar(entry.mean, height, xerr=entry.error, fmt="o", color=colour, capsize=3, zorder=2)
    ax.set_yticks(range(len(shown)), shown)
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    better = "more" if sign_of(result.metric) > 0 else "less"
    ax.set_xlabel(f"{in_words(result.metric)} ({better} is better): folds, mean ± standard error")
    ax.set_ylim(-0.6, len(shown) - 0.4)
    open_frame(ax, keep=("left", "bottom"))


def _draw_differences(ax: Axes, result: ComparisonResult, shown: list[str]) -> None:
    ax.axvline(0.0, color=PALE, linewidth=1.5, zorder=0)
    for found in result.differences():
        height = shown.index(found.other)
        ax.plot([found.lower, found.upper], [height, height], color=GREY, linewidth=1.5)
        ax.plot(found.mean, height, "o", color=GREY)
    ax.plot(0.0, shown.index(result.best), "o", color=BLUE)
    ax.set_xlabel("best minus this one: mean, 95 % interval")
    ax.tick_params(axis="y", length=0)
    open_frame(ax, keep=("bottom",))
