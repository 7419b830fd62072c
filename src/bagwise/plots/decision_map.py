"""What a model believes of instances all over a plane of two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse

from bagwise._matrices import axis_name, column_number
from bagwise._validation import check_count
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import positive_proba
from bagwise.plots._style import BLUE, GREY, ORANGE, Floats, _Display, column_of, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 0.06  # of the range of the instances, on every side
_MARKERS = (("o", BLUE, "known negative"), ("^", ORANGE, "known positive"))


class DecisionMapDisplay(_Display):
    """The probability of a positive as colour over two features, the line at one half, and instances on top.

    Instances of unknown class are grey dots, known ones blue circles (negative) and orange triangles (positive).
    """

    def __init__(
        self,
        across: Floats,
        up: Floats,
        probability: Floats,
        *,
        points: Floats | None = None,
        truth: Floats | None = None,
        names: tuple[str, str] = ("feature 0", "feature 1"),
    ) -> None:
        self.across, self.up, self.probability = across, up, probability  # (X,), (Y,), (Y, X)
        self.points, self.truth, self.names = points, truth, names

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        bags: Any,
        *,
        features: Sequence[int | str] = (0, 1),
        at: Any = None,
        instance_y: Any = None,
        label: int = 0,
        resolution: int = 80,
        size: float = 12.0,
        ax: Axes | None = None,
    ) -> Self:
        """From a fitted model over the range of some bags.

        ``features`` are two columns, by number or name; every other feature stays at its median, or at the values of
        the row ``at``. ``instance_y`` (1, 0, or NaN for unknown) marks the instances by their true class; ``size`` is
        the area of a mark, in points squared.
        """
        given = as_bags(bags)
        columns = [column_number(name, given.n_features, given.feature_names) for name in features]
        if len(columns) != 2 or columns[0] == columns[1]:
            raise BagDataError(f"features={features!r}: expected two different columns.")
        X = given.X.toarray() if scipy.sparse.issparse(given.X) else np.asarray(given.X)
        across, up = (_ticks(X[:, column], check_count("resolution", resolution, least=2)) for column in columns)
        rows = np.tile(_rest(at, X), (len(across) * len(up), 1))
        rows[:, columns[0]], rows[:, columns[1]] = (part.ravel() for part in np.meshgrid(across, up))
        asked = Bags(rows, np.arange(len(rows)), feature_names=given.feature_names)
        found = column_of(positive_proba(model.predict_instance_proba(asked), model.classes_), label)
        names = (axis_name(columns[0], given.feature_names), axis_name(columns[1], given.feature_names))
        truth = None if instance_y is None else _truth(instance_y, given)
        grid = found.reshape(len(up), len(across))
        return cls(across, up, grid, points=X[:, columns], truth=truth, names=names).plot(ax, size=size)

    def plot(
        self, ax: Axes | None = None, *, size: float = 12.0, colorbar: bool = False, title: str | None = None
    ) -> Self:
        """Draw; ``colorbar`` adds the scale of the colours. Call ``ax_.legend()`` for what the marks mean."""
        from matplotlib.colors import LinearSegmentedColormap

        ax = self._start(ax, (4.8, 4.4))
        colours = LinearSegmentedColormap.from_list("bagwise", ["#a9c8e4", "#ffffff", "#f3cfae"])
        edges = (self.across[0], self.across[-1], self.up[0], self.up[-1])
        image = ax.imshow(
            self.probability,
            origin="lower",
            extent=edges,
            vmin=0.0,
            vmax=1.0,
            cmap=colours,
            aspect="auto",
            interpolation="bilinear",
        )
        if self.probability.min() < 0.5 < self.probability.max():
            ax.contour(self.across, self.up, self.probability, levels=[0.5], colors=[GREY], linewidths=1.2)
        self._mark(ax, size)
        ax.set(xlabel=self.names[0], ylabel=self.names[1], xlim=edges[:2], ylim=edges[2:], title=title)
        open_frame(ax, keep=("left", "bottom"))
        if colorbar:
            ax.figure.colorbar(image, ax=ax, label="probability of a positive")
        return self

    def _mark(self, ax: Axes, size: float) -> None:
        if self.points is None:
            return
        truth = np.full(len(self.points), np.nan) if self.truth is None else self.truth
        unknown = self.points[np.isnan(truth)]
        ax.scatter(unknown[:, 0], unknown[:, 1], s=size / 2, color=GREY, linewidths=0)
        for value, (marker, colour, word) in enumerate(_MARKERS):
            some = self.points[truth == value]
            ax.scatter(some[:, 0], some[:, 1], s=size, marker=marker, color=colour, linewidths=0, label=word)


def _ticks(values: Floats, resolution: int) -> Floats:
    low, high = float(values.min()), float(values.max())
    room = _MARGIN * (high - low) or 1.0
    return np.linspace(low - room, high + room, resolution)


def _rest(at: Any, X: Floats) -> Floats:
    rest = np.median(X, axis=0) if at is None else np.asarray(at, dtype=np.float64)
    if rest.shape != (X.shape[1],):
        raise BagDataError(f"at: expected a row of {X.shape[1]} values, got shape {rest.shape}.")
    return rest


def _truth(instance_y: Any, bags: Bags) -> Floats:
    truth = np.asarray(instance_y, dtype=np.float64)
    if truth.shape != (bags.n_instances,):
        raise BagDataError(f"instance_y: expected one value per instance ({bags.n_instances}), got {truth.shape}.")
    return truth
