"""Where in the slide: probabilities of tiles at their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bagwise._validation import check_below, shorten
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import positive_proba
from bagwise.plots._style import Floats, _Display, column_of, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLACES = (("x", "y"), ("x_um", "y_um"), ("coord_x", "coord_y"))  # columns of ``meta`` that may hold positions
_MOST_CELLS = 4_000_000
_WARM = ["#fbf6ec", "#f6c98f", "#e08a3c", "#b0461c", "#4f1208"]  # from light to dark, so that it survives grey print
_COOL = ["#f5f8fb", "#9fc3de", "#1d5b8f", "#0b2540"]


class HeatmapDisplay(_Display):
    """The tiles of one slide at their places: how probably each is positive, and how uncertain that is.

    Colours of the probability always run from 0 to 1, so pictures can be compared. A line encloses the tiles above a
    chosen probability. Places without a tile stay empty.

    Parameters
    ----------
    coords : (n, 2) left and top of every tile; top grows downwards, as in an image
    probability : (n,)
    spread : (n,) standard deviation of the probability under the posterior; None draws no second picture
    name : of the slide
    unit : of ``coords``, for the axes
    image, image_size : a picture to lay under the map, and the width and height that it covers in the unit of
        ``coords``, from (0, 0); None takes what the tiles cover
    """

    def __init__(
        self,
        coords: Any,
        probability: Any,
        *,
        spread: Any = None,
        name: str | None = None,
        unit: str = "px",
        image: Any = None,
        image_size: Sequence[float] | None = None,
    ) -> None:
        self.coords = np.asarray(coords, dtype=np.float64)
        self.probability = np.asarray(probability, dtype=np.float64)
        self.spread = None if spread is None else np.asarray(spread, dtype=np.float64)
        self.name = name
        self.unit = unit
        self.image = None if image is None else np.asarray(image)
        self.image_size = image_size
        if self.coords.shape != (len(self.probability), 2) or not np.isfinite(self.coords).all():
            raise BagDataError(
                f"coords: expected a finite position (left, top) for each of {len(self.probability)} tiles, got shape "
                f"{self.coords.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        bags: Any,
        bag: int | str = 0,
        *,
        given: Any = None,
        label: int = 0,
        level: float = 0.5,
        image: Any = None,
        image_size: Sequence[float] | None = None,
        ax: Any = None,
    ) -> Self:
        """From a fitted model and one of the bags, whose ``meta`` holds positions; ``given`` is the label of that bag.

        A bag with parts is several slides: choose one of ``bags.by_part()``.
        """
        one = as_bags(bags)[bag]
        coords, unit = positions(one)
        condition = {} if given is None else {"given": [given]}
        return cls(
            coords,
            column_of(positive_proba(model.predict_instance_proba(one, **condition), model.classes_), label),
            spread=column_of(model.predict_instance_spread(one), label),
            name=one.ids[0],
            unit=unit,
            image=image,
            image_size=image_size,
        ).plot(ax, level=level)

    def plot(
        self, ax: Any = None, *, level: float | None = 0.5, colorbar: bool = True, title: str | None = None
    ) -> Self:
        """Draw; ``ax`` may be two axes, the second for the spread. ``level`` is the probability of the line, if any."""
        if level is not None:
            check_below("level", level, 1.0)
        first, second = self._axes(ax)
        raster = Raster.of(self.coords, self.probability)
        image = self._draw(first, raster, _WARM, 1.0)
        if level is not None:
            raster.enclose(first, level)
        name = "" if self.name is None else self.name
        self._finish(first, title if title is not None else name, image, "probability of a positive", colorbar)
        if second is not None and self.spread is not None:
            spread = self._draw(second, Raster.of(self.coords, self.spread), _COOL, 0.5)
            self._finish(second, "uncertainty", spread, "standard deviation of it", colorbar)
        return self

    def _axes(self, ax: Any) -> tuple[Axes, Axes | None]:
        if ax is None and self.spread is not None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
        pair = list(np.ravel(ax)) if ax is not None else [None]
        first = self._start(pair[0], (5.6, 4.6))
        return first, pair[1] if len(pair) > 1 else None

    def _draw(self, ax: Axes, raster: Raster, colours: list[str], top: float) -> Any:
        from matplotlib.colors import LinearSegmentedColormap

        if self.image is not None:
            width, height = self.image_size if self.image_size is not None else (raster.extent[1], raster.extent[2])
            ax.imshow(self.image, extent=(0.0, width, height, 0.0), interpolation="bilinear", zorder=0)
        shades = LinearSegmentedColormap.from_list("bagwise", colours)
        alpha = 1.0 if self.image is None else 0.6
        drawn = ax.imshow(
            raster.values, extent=raster.extent, vmin=0.0, vmax=top, cmap=shades, interpolation="nearest", alpha=alpha
        )
        ax.set(xlim=raster.extent[:2], ylim=raster.extent[2:], aspect="equal")
        return drawn

    def _finish(self, ax: Axes, title: str, image: Any, meaning: str, colorbar: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        ax.set_title(title, loc="left", fontsize=10, parse_math=False)
        ax.set(xlabel=self.unit, ylabel=self.unit)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.yaxis.set_major_locator(MaxNLocator(4))
        open_frame(ax, keep=("left", "bottom"))
        if colorbar:
            scale = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
            scale.set_label(meaning, fontsize=9)
            scale.ax.tick_params(labelsize=8)


class Raster:
    """Values of tiles on a regular grid as wide as their usual distance; NaN where there is no tile."""

    def __init__(self, values: Floats, corner: Floats, step: float) -> None:
        height, width = values.shape
        left, top = corner
        self.values, self.step = values, step
        self.extent = (left, left + width * step, top + height * step, top)  # as imshow wants it, top above bottom

    @classmethod
    def of(cls, coords: Floats, values: Floats) -> Self:
        """Tiles in one cell of the grid are averaged."""
        corner, step = coords.min(axis=0), usual_step(coords)
        places = np.round((coords - corner) / step).astype(np.int64)
        width, height = places.max(axis=0) + 1
        sums, counts = np.zeros((height, width)), np.zeros((height, width))
        np.add.at(sums, (places[:, 1], places[:, 0]), values)
        np.add.at(counts, (places[:, 1], places[:, 0]), 1.0)
        with np.errstate(invalid="ignore"):
            return cls(sums / counts, corner, step)

    def enclose(self, ax: Axes, level: float) -> None:
        """A line along the edges of the cells above a level."""
        from matplotlib.collections import LineCollection

        inside = np.pad(np.nan_to_num(self.values, nan=-1.0) > level, 1)
        left, _, _, top = self.extent
        across, down = np.nonzero(inside[:, 1:] != inside[:, :-1]), np.nonzero(inside[1:] != inside[:-1])
        walls = [((column, row - 1), (column, row)) for row, column in zip(*across, strict=True)]
        floors = [((column - 1, row), (column, row)) for row, column in zip(*down, strict=True)]
        lines = np.array([*walls, *floors], dtype=np.float64).reshape(-1, 2, 2) * self.step + (left, top)
        ax.add_collection(LineCollection(list(lines), colors="#1f2430", linewidths=1.3))


def usual_step(coords: NDArray[Any]) -> float:
    """The usual distance between neighbouring tiles (1 for a single one), but no grid with too many cells."""
    distinct = np.unique(coords, axis=0)
    if len(distinct) < 2:
        return 1.0
    nearest = cKDTree(distinct).query(distinct, k=2, p=np.inf)[0][:, 1]
    span = np.ptp(distinct, axis=0)
    step = float(np.median(nearest))
    return max(step, float(np.sqrt(np.prod(np.maximum(span, step)) / _MOST_CELLS)))


def positions(bags: Bags) -> tuple[Floats, str]:
    """Positions of the instances, from the columns of ``bags.meta``, and their unit."""
    meta = bags.meta
    names = () if meta is None else tuple(str(name) for name in meta)
    pair = next((pair for pair in PLACES if set(pair) <= set(names)), None)
    if meta is None or pair is None:
        raise BagDataError(
            f"the bags have no positions: meta needs columns 'x' and 'y' (or 'x_um' and 'y_um'); it has "
            f"{shorten(names) or 'none'}. Bags.from_folder makes them from coords."
        )
    return meta[list(pair)].to_numpy(dtype=np.float64), "µm" if pair[0].endswith("_um") else "px"
