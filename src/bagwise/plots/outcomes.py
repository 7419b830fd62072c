"""Shares of several outcomes in some bags, expected and stated, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bagwise.exceptions import BagDataError
from bagwise.plots._style import CURVES, _Display, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 0.36


class OutcomesDisplay(_Display):
    """Two bars for every bag: the expected shares of the outcomes above the stated ones, which are darker."""

    def __init__(self, stated: Any, expected: Any, bags: Sequence[str], outcomes: Sequence[str]) -> None:
        self.stated, self.expected = np.asarray(stated, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        self.bags, self.outcomes = tuple(map(str, bags)), tuple(map(str, outcomes))
        wanted = (len(self.bags), len(self.outcomes))
        if self.stated.shape != wanted or self.expected.shape != wanted:
            raise BagDataError(
                f"expected shares of {wanted[1]} outcomes in {wanted[0]} bags, got arrays of shapes "
                f"{self.stated.shape} (stated) and {self.expected.shape} (expected)."
            )

    @classmethod
    def from_predictions(
        cls, stated: Any, expected: Any, bags: Sequence[str], outcomes: Sequence[str], *, ax: Axes | None = None
    ) -> Self:
        """From shares (B, K), names of the bags and names of the outcomes."""
        return cls(stated, expected, bags, outcomes).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; expected shares are made to add up to one, a bag that states nothing has one bar."""
        ax = self._start(ax, (5.6, 0.9 + 0.5 * len(self.bags)))
        sums = self.expected.sum(axis=1, keepdims=True)
        for values, shift, alpha in ((self.expected / sums, -0.5, 0.55), (self.stated, 0.5, 1.0)):
            left = np.zeros(len(self.bags))
            place = np.arange(len(self.bags)) + shift * _HEIGHT
            for k, name in enumerate(self.outcomes):
                width = np.nan_to_num(values[:, k])
                shade = alpha / (1 + k // len(CURVES))
                label = name if shift > 0 else None
                colour = CURVES[k % len(CURVES)]
                ax.barh(place, width, _HEIGHT, left=left, color=colour, alpha=shade, label=label, edgecolor="white")
                left = left + width
        ax.set(xlim=(0, 1), xlabel="share", yticks=np.arange(len(self.bags)), yticklabels=self.bags)
        ax.invert_yaxis()
        texts = ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3).get_texts()
        for text in (*texts, *ax.get_yticklabels()):
            text.set_parse_math(False)
        open_frame(ax, keep=("bottom",))
        return self
