"""What the displays share: colours, the axes they are drawn on, frames, legends, and the choice of a label column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bagwise.exceptions import BagDataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Floats = NDArray[np.float64]

# One language of colours: orange is positive (probable, or known to be), blue is negative or has no such meaning, red
# is a warning. Curves of several things take CURVES, which leave orange and red out.
BLUE, ORANGE, GREY, PALE, RED = "#1d5b8f", "#c8601a", "#8a8f98", "#d9dde3", "#a3262a"
CURVES = (BLUE, "#3d8168", "#7d5aa6", "#5b636e")


class _Display:
    """Holds the axes it was drawn on."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _start(self, ax: Axes | None, size: tuple[float, float]) -> Axes:
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def column_of(values: Floats, label: int) -> Floats:
    if values.ndim == 1:
        return values
    if not 0 <= label < values.shape[1]:
        raise BagDataError(f"label={label}: the model has labels 0 to {values.shape[1] - 1}.")
    return values[:, label]


def unit_square(ax: Axes, across: str, up: str) -> None:
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=across, ylabel=up, aspect="equal")
    open_frame(ax, keep=("left", "bottom"))


def plain_legend(ax: Axes, loc: Literal["best", "upper left", "lower right"]) -> None:
    """A legend without a frame that shows names as they are written."""
    for text in ax.legend(loc=loc, frameon=False).get_texts():
        text.set_parse_math(False)


def open_frame(ax: Axes, *, keep: Sequence[str]) -> None:
    """Only the named sides of the frame, in grey."""
    for side, line in ax.spines.items():
        line.set_visible(side in keep)
        line.set_color(GREY)
    ax.tick_params(color=GREY, labelsize=9)
