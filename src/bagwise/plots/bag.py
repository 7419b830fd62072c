"""The instances of one bag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import check_count
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import instance_truth, positive_proba
from bagwise.plots._style import BLUE, GREY, ORANGE, PALE, Floats, _Display, column_of, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BagDisplay(_Display):
    """The instances of one bag, the most probable first: as bars, or as images with the probability under each.

    Parameters
    ----------
    probability : (n,) probabilities of the instances
    name : of the bag
    bag_probability : of the bag as a whole
    truth : (n,) known instance labels (0, 1, NaN); positives are marked
    images : (n, height, width) or (n, height, width, colours)
    """

    def __init__(
        self,
        probability: Any,
        *,
        name: str | None = None,
        bag_probability: float | None = None,
        truth: Any = None,
        images: Any = None,
    ) -> None:
        self.probability = np.asarray(probability, dtype=np.float64)
        self.name = name
        self.bag_probability = bag_probability
        self.truth = np.full(self.probability.shape, np.nan) if truth is None else np.asarray(truth, dtype=np.float64)
        self.images = None if images is None else np.asarray(images)

    @classmethod
    def from_predictions(
        cls,
        probability: Any,
        *,
        name: str | None = None,
        bag_probability: float | None = None,
        truth: Any = None,
        images: Any = None,
        max_instances: int = 24,
        ax: Axes | None = None,
    ) -> Self:
        """From the probabilities of the instances of one bag."""
        display = cls(probability, name=name, bag_probability=bag_probability, truth=truth, images=images)
        return display.plot(ax, max_instances=max_instances)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        bags: Any,
        bag: int | str = 0,
        *,
        instance_y: Any = None,
        image_shape: Sequence[int] | None = None,
        label: int = 0,
        max_instances: int = 24,
        ax: Axes | None = None,
    ) -> Self:
        """From a fitted model and one of the bags (by number or id); ``instance_y`` is that of all the bags."""
        bags = as_bags(bags)
        one = bags[bag]
        truth = None
        if instance_y is not None:
            truth = column_of(instance_truth(instance_y, model.classes_), label)[_instances_of(bags, one.ids[0])]
        return cls.from_predictions(
            column_of(positive_proba(model.predict_instance_proba(one), model.classes_), label),
            name=one.ids[0],
            bag_probability=float(column_of(positive_proba(model.predict_proba(one), model.classes_), label)[0]),
            truth=truth,
            images=None if image_shape is None else as_images(one, image_shape),
            max_instances=max_instances,
            ax=ax,
        )

    def plot(self, ax: Axes | None = None, *, max_instances: int = 24) -> Self:
        """Draw the ``max_instances`` most probable instances."""
        check_count("max_instances", max_instances)
        order = np.argsort(-self.probability, kind="stable")[:max_instances]
        if self.images is None:
            self._plot_bars(ax, order)
        else:
            self._plot_images(ax, order, self.images)
        self.ax_.set_title(self._title(len(order)), loc="left", fontsize=10, parse_math=False)
        return self

    def _title(self, shown: int) -> str:
        parts = [] if self.name is None else [f"bag {self.name}"]
        if self.bag_probability is not None:
            parts.append(f"P(positive) = {self.bag_probability:.2f}")
        if shown < len(self.probability):
            parts.append(f"{shown} of {len(self.probability)} instances")
        return " · ".join(parts)

    def _plot_bars(self, ax: Axes | None, order: NDArray[np.int64]) -> None:
        ax = self._start(ax, (5.0, 0.9 + 0.24 * len(order)))
        place = np.arange(len(order))
        values, positive = self.probability[order], self.truth[order] == 1
        ax.barh(place, 1.0, color=PALE, height=0.66, alpha=0.45)
        ax.barh(place, values, color=np.where(positive, ORANGE, BLUE), height=0.66)
        for row, (value, number) in enumerate(zip(values, order, strict=True)):
            ax.text(1.02, row, f"{value:.2f}", va="center", fontsize=8)
            ax.text(-0.02, row, f"{number}", va="center", ha="right", fontsize=8, color=GREY)
        ax.set(xlim=(0, 1), ylim=(len(order) - 0.4, -0.6), yticks=[], xticks=[0, 0.5, 1])
        ax.set_xlabel("probability" + ("  (orange: known positive)" if positive.any() else ""), fontsize=9)
        open_frame(ax, keep=("bottom",))

    def _plot_images(self, ax: Axes | None, order: NDArray[np.int64], images: NDArray[Any]) -> None:
        n_columns = min(len(order), 12)
        n_lines = -(-len(order) // n_columns)
        height, width = images.shape[1:3]
        tall = 0.9 * height / width
        ax = self._start(ax, (0.78 * n_columns + 0.2, (0.78 * tall + 0.38) * n_lines + 0.4))
        low, high = float(images.min()), float(images.max())
        step = tall + 0.42
        for place, number in enumerate(order):
            left, top = place % n_columns, (place // n_columns) * step
            ax.imshow(
                scaled(images[number], low, high),
                cmap="gray_r",
                vmin=0,
                vmax=1,
                extent=(left + 0.05, left + 0.95, top + tall, top),
                interpolation="nearest",
            )
            self._caption(ax, number, (left, top, tall))
        ax.set(xlim=(-0.02, n_columns + 0.02), ylim=(n_lines * step, -0.06), aspect="equal")
        ax.axis("off")

    def _caption(self, ax: Axes, number: int, place: tuple[float, float, float]) -> None:
        from matplotlib.patches import Rectangle

        left, top, tall = place
        positive = self.truth[number] == 1
        edge, thick = (ORANGE, 2.2) if positive else (PALE, 0.8)
        frame = Rectangle((left + 0.05, top), 0.9, tall, fill=False, zorder=3, edgecolor=edge, linewidth=thick)
        ax.add_patch(frame)
        bar = top + tall + 0.05
        ax.add_patch(Rectangle((left + 0.05, bar), 0.9, 0.06, color=PALE, linewidth=0))
        ax.add_patch(Rectangle((left + 0.05, bar), 0.9 * self.probability[number], 0.06, color=BLUE, linewidth=0))
        ax.text(left + 0.5, bar + 0.09, f"{self.probability[number]:.2f}", ha="center", va="top", fontsize=8)


def as_images(bags: Bags, image_shape: Sequence[int]) -> Floats:
    """The rows of the bags as images, (N, height, width) or (N, height, width, colours)."""
    shape = tuple(check_count("image_shape", size) for size in image_shape)
    if len(shape) not in (2, 3) or int(np.prod(shape)) != bags.n_features or shape[2:] not in ((), (3,), (4,)):
        raise BagDataError(
            f"image_shape={tuple(image_shape)}: expected (height, width), or (height, width, 3) for colours, with "
            f"{bags.n_features} values in all, one per feature."
        )
    rows = bags.X.toarray() if hasattr(bags.X, "toarray") else np.asarray(bags.X)
    images: Floats = rows.reshape(-1, *shape).astype(np.float64)
    return images


def scaled(image: Floats, low: float, high: float) -> Floats:
    """Values between ``low`` and ``high`` as 0 to 1."""
    return (image - low) / (high - low) if high > low else np.zeros_like(image)


def _instances_of(bags: Bags, name: str) -> slice:
    number = bags.ids.index(name)
    return slice(int(bags.offsets[number]), int(bags.offsets[number + 1]))
