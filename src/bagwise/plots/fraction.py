"""Do bags hold the share of positives that was expected of them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bagwise.exceptions import BagDataError
from bagwise.plots._style import BLUE, ORANGE, PALE, Floats, _Display, unit_square
from bagwise.predict.counts import FractionSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN = 2000  # bags as lines and dots of their own; more are drawn as pixels, which take less room in a file


class FractionDisplay(_Display):
    """Stated share of positives against the expected one, with its interval; orange where the interval misses it."""

    def __init__(self, stated: Floats, expected: FractionSummary) -> None:
        if np.shape(stated) != np.shape(expected.mean):
            raise BagDataError(
                f"stated: expected one share per bag {np.shape(expected.mean)}, got shape {np.shape(stated)}."
            )
        self.stated, self.expected = np.asarray(stated, dtype=np.float64), expected

    @classmethod
    def from_estimator(cls, model: Any, bags: Any, stated: Any, *, level: float = 0.9, ax: Axes | None = None) -> Self:
        """From a fitted model, bags (best ones it was not fitted to) and their shares of positives, NaN for none."""
        return cls(np.asarray(stated, dtype=np.float64), model.predict_fraction(bags, level)).plot(ax)

    @property
    def coverage(self) -> float:
        """Share of the bags whose interval holds what they state."""
        return float(np.mean(self._held()[~np.isnan(self.stated)]))

    def _held(self) -> Any:
        room = 1e-9
        return (self.stated >= self.expected.lower - room) & (self.stated <= self.expected.upper + room)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw one dot and one line for every bag that states a share."""
        ax = self._start(ax, (4.4, 4.4))
        ax.plot([0, 1], [0, 1], color=PALE, linewidth=1.5, zorder=0)
        for held, colour in ((True, BLUE), (False, ORANGE)):
            chosen = (self._held() == held) & ~np.isnan(self.stated)
            mean, lower, upper = (part[chosen] for part in self.expected)
            many: dict[str, Any] = {"color": colour, "rasterized": len(self.stated) > MOST_DRAWN}
            ax.vlines(self.stated[chosen], lower, upper, alpha=0.35, linewidth=1.2, **many)
            ax.scatter(self.stated[chosen], mean, s=14, zorder=3, clip_on=False, **many)
        unit_square(ax, "stated share", "expected share and its interval")
        return self
