"""Which features matter to a learned kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bagwise._validation import check_count, feature_names
from bagwise.exceptions import BagDataError
from bagwise.plots._style import BLUE, ORANGE, PALE, _Display, open_frame, plain_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 40  # features up to which each has a bar with its name


class RelevanceDisplay(_Display):
    """The share of every feature in the squared inverse lengthscales of a kernel with ``ard=True``.

    Few features: bars, the largest first, with their names. Many: one point per feature in the order of the columns, on
    a logarithmic scale, beside the share that each would have if all mattered alike.

    Parameters
    ----------
    relevance : (D,) shares
    names : of the features
    relevant : (D,) where it is known which features matter; those are marked
    """

    def __init__(self, relevance: Any, *, names: Sequence[str] | None = None, relevant: Any = None) -> None:
        self.relevance = np.asarray(relevance, dtype=np.float64)
        self.names = [f"feature {d}" for d in range(len(self.relevance))] if names is None else list(names)
        marks = np.zeros(len(self.relevance)) if relevant is None else relevant
        self.relevant = np.asarray(marks, dtype=bool)
        if not len(self.names) == len(self.relevant) == len(self.relevance):
            raise BagDataError(
                f"relevance of {len(self.relevance)} features, but {len(self.names)} names and {len(self.relevant)} "
                "marks; give one of each per feature."
            )

    @classmethod
    def from_estimator(
        cls, model: Any, *, relevant: Any = None, max_features: int = _NAMED, ax: Axes | None = None
    ) -> Self:
        """From the ``relevance_`` of a fitted model."""
        relevance = model.relevance_
        if relevance is None:
            raise BagDataError(
                f"the kernel of this {type(model).__name__} has no lengthscales, so no relevances; use ard=True and a "
                "kernel such as 'rbf'."
            )
        if len(relevance) > 1 and np.ptp(relevance) == 0:
            raise BagDataError(
                f"this {type(model).__name__} has learned no relevances: one lengthscale serves all features. Fit it "
                "with ard=True (and learn=True), or measure bagwise.inspection.importance, which works for every model."
            )
        return cls(relevance, names=feature_names(model), relevant=relevant).plot(ax, max_features=max_features)

    def plot(self, ax: Axes | None = None, *, max_features: int = _NAMED) -> Self:
        """Draw bars for up to ``max_features`` features, points in the order of the columns for more."""
        check_count("max_features", max_features)
        if len(self.relevance) <= max_features:
            self._plot_bars(ax)
        else:
            self._plot_points(ax)
        return self

    def _plot_bars(self, ax: Axes | None) -> None:
        order = np.argsort(-self.relevance, kind="stable")
        ax = self._start(ax, (5.0, 0.9 + 0.24 * len(order)))
        place, values = np.arange(len(order)), self.relevance[order]
        top = max(float(values[0]), 1e-12)
        ax.barh(place, values, color=np.where(self.relevant[order], ORANGE, BLUE), height=0.66)
        for row, (value, number) in enumerate(zip(values, order, strict=True)):
            ax.text(value + 0.02 * top, row, f"{value:.2f}", va="center", fontsize=8)
            ax.text(-0.02 * top, row, self.names[number], va="center", ha="right", fontsize=8, parse_math=False)
        self._mark_even_share(ax.axvline)
        ax.set(xlim=(0, 1.12 * top), ylim=(len(order) - 0.4, -0.6), yticks=[])
        ax.set_xlabel(self._label("share of the relevance"), fontsize=9)
        open_frame(ax, keep=("bottom",))

    def _plot_points(self, ax: Axes | None) -> None:
        ax = self._start(ax, (7.2, 3.4))
        columns, known = np.arange(len(self.relevance)), self.relevant.any()
        values = np.maximum(self.relevance, np.finfo(float).tiny)
        for chosen, color, word in ((~self.relevant, BLUE, "others"), (self.relevant, ORANGE, "known to matter")):
            if chosen.any():
                label = word if known else None
                ax.plot(columns[chosen], values[chosen], "o", color=color, markersize=3.2, alpha=0.85, label=label)
        self._mark_even_share(ax.axhline)
        ax.set(yscale="log", xlabel="feature", ylabel="share of the relevance")
        open_frame(ax, keep=("left", "bottom"))
        if known:
            plain_legend(ax, "best")

    def _mark_even_share(self, line: Any) -> None:
        line(1.0 / len(self.relevance), color=PALE, linewidth=1.5, zorder=0)

    def _label(self, text: str) -> str:
        return text + ("  (orange: known to matter)" if self.relevant.any() else "") + "   line: all alike"
