"""Do the probabilities mean what they say?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bagwise.metrics import ReliabilityCurve, positive_proba, reliability_curve, truth_of
from bagwise.plots._style import BLUE, PALE, Floats, _Display, column_of, plain_legend, unit_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ReliabilityDisplay(_Display):
    """Predicted probability against observed frequency; on the diagonal, probabilities mean what they say.

    Vertical bars are 95 % intervals (Wilson) of the observed share; larger dots stand for more entries.
    """

    def __init__(self, curve: ReliabilityCurve, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        p: Any,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """From truth (0, 1, NaN) and probabilities of the positive class."""
        return cls(reliability_curve(y, p, n_bins, strategy), name=name).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        bags: Any,
        y: Any,
        *,
        label: int = 0,
        n_bins: int = 10,
        strategy: str = "uniform",
        ax: Axes | None = None,
    ) -> Self:
        """From a fitted model and labelled bags; ``label`` is the number of the column, or of the class.

        Of a model of classes: how often bags to which a class is given with some probability have it. ``y`` then holds
        the true class of every bag.
        """
        if model.of_classes:
            chance = column_of(model.predict_proba(bags), label)
            has, name = (np.asarray(y) == model.classes_[label]).astype(float), str(model.classes_[label])
            return cls.from_predictions(has, chance, n_bins=n_bins, strategy=strategy, name=name, ax=ax)
        truth = column_of(truth_of(y, model.classes_), label)
        proba = column_of(positive_proba(model.predict_proba(bags), model.classes_), label)
        name = type(model).__name__
        return cls.from_predictions(truth, proba, n_bins=n_bins, strategy=strategy, name=name, ax=ax)

    def plot(self, ax: Axes | None = None, *, color: str = BLUE) -> Self:
        """Draw; several curves may share the axes."""
        ax = self._start(ax, (4.4, 4.4))
        curve = self.curve
        below, above = wilson_interval(curve.observed, curve.counts)
        ax.plot([0, 1], [0, 1], color=PALE, linewidth=1.5, zorder=0)
        ax.vlines(curve.mean_predicted, below, above, color=color, alpha=0.35, linewidth=1.5)
        ax.plot(curve.mean_predicted, curve.observed, color=color, linewidth=1.5, label=self.name)
        sizes = 15 + 110 * curve.counts / max(curve.counts.max(initial=1), 1)
        ax.scatter(curve.mean_predicted, curve.observed, s=sizes, color=color, zorder=3, clip_on=False)
        unit_square(ax, "predicted probability", "observed frequency")
        if self.name is not None:
            plain_legend(ax, "upper left")
        return self


def wilson_interval(share: Floats, counts: NDArray[np.int64], z: float = 1.96) -> tuple[Floats, Floats]:
    """Confidence interval of an observed share; unlike the textbook one it keeps its width at 0 and 1."""
    centre = (share + z**2 / (2 * counts)) / (1 + z**2 / counts)
    half = z * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2)) / (1 + z**2 / counts)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
