"""Displays in the manner of scikit-learn: made ``from_predictions`` or ``from_estimator``, drawn by ``plot(ax)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import check_count
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import ReliabilityCurve, instance_truth, positive_proba, reliability_curve, truth_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Floats = NDArray[np.float64]

BLUE, ORANGE, GREY, PALE = "#1d5b8f", "#c8601a", "#8a8f98", "#d9dde3"


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
        """From a fitted model and labelled bags; ``label`` is the column where there are several."""
        truth = _column(truth_of(y, model.classes_), label)
        proba = _column(positive_proba(model.predict_proba(bags), model.classes_), label)
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
        _unit_square(ax, "predicted probability", "observed frequency")
        if self.name is not None:
            plain_legend(ax, "upper left")
        return self


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
            truth = _column(instance_truth(instance_y, model.classes_), label)[_instances_of(bags, one.ids[0])]
        return cls.from_predictions(
            _column(positive_proba(model.predict_instance_proba(one), model.classes_), label),
            name=one.ids[0],
            bag_probability=float(_column(positive_proba(model.predict_proba(one), model.classes_), label)[0]),
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


class TraceDisplay(_Display):
    """The course of an iteration and whether it settled, or the chains of a sampler and whether they have mixed.

    Parameters
    ----------
    values : (n,) the objective of every iteration, or (chains, n) one quantity in every sweep of several chains
    name : of the objective or quantity
    converged : whether it settled; ``note`` says more
    """

    def __init__(
        self, values: Any, *, name: str = "objective", converged: bool = True, note: str | None = None
    ) -> None:
        self.values = np.asarray(values, dtype=np.float64)
        self.name = name
        self.converged = converged
        self.note = note

    @classmethod
    def from_estimator(
        cls, model: Any, *, quantity: str = "log_likelihood", label: int = 0, ax: Axes | None = None
    ) -> Self:
        """From the ``trace_`` of a fitted model, or from one quantity of its ``chains_`` where it was sampled."""
        chains = getattr(model, "chains_", None)
        if chains is None:
            trace = model.trace_
            return cls(trace.values, name=trace.name, converged=trace.converged).plot(ax)
        if quantity not in chains.names:
            raise BagDataError(f"quantity={quantity!r}: the chains hold {', '.join(chains.names)}.")
        if not 0 <= label < len(chains.values):
            raise BagDataError(f"label={label}: the model has labels 0 to {len(chains.values) - 1}.")
        number = chains.names.index(quantity)
        row = chains.table.iloc[label * len(chains.names) + number]
        note = f"R-hat {row['r_hat']:.3f}, bulk ESS {row['ess_bulk']:.0f}"
        return cls(chains.values[label, number], name=quantity, converged=chains.converged, note=note).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the course and mark its end, or all chains over one another."""
        from matplotlib.ticker import MaxNLocator

        ax = self._start(ax, (5.2, 3.2))
        if self.values.ndim == 1:
            self._plot_course(ax)
        else:
            self._plot_chains(ax)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        plain_legend(ax, "best")
        open_frame(ax, keep=("left", "bottom"))
        return self

    def _plot_course(self, ax: Axes) -> None:
        iterations = np.arange(1, len(self.values) + 1)
        end = "settled" if self.converged else "not settled"
        color = BLUE if self.converged else ORANGE
        ax.plot(iterations, self.values, color=BLUE, linewidth=1.5)
        ax.plot(iterations[-1:], self.values[-1:], "o", color=color, label=f"{end} after {len(self.values)} iterations")
        ax.set(xlabel="iteration", ylabel=self.name)

    def _plot_chains(self, ax: Axes) -> None:
        """At most 2,000 points of each chain are drawn: more cannot be told apart."""
        sweeps = np.arange(1, self.values.shape[1] + 1)
        step = max(1, len(sweeps) // 2000)
        for number, chain in enumerate(self.values):
            shade = 0.9 - 0.6 * number / len(self.values)
            ax.plot(sweeps[::step], chain[::step], color=BLUE, alpha=shade, linewidth=0.6)
        end = "mixed" if self.converged else "not mixed"
        word = f"{len(self.values)} chains, {end}" + ("" if self.note is None else f" ({self.note})")
        ax.plot([], [], color=BLUE if self.converged else ORANGE, label=word)
        ax.set(xlabel="sweep after the burn-in", ylabel=self.name)


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


def wilson_interval(share: Floats, counts: NDArray[np.int64], z: float = 1.96) -> tuple[Floats, Floats]:
    """Confidence interval of an observed share; unlike the textbook one it keeps its width at 0 and 1."""
    centre = (share + z**2 / (2 * counts)) / (1 + z**2 / counts)
    half = z * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2)) / (1 + z**2 / counts)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def _column(values: Floats, label: int) -> Floats:
    if values.ndim == 1:
        return values
    if not 0 <= label < values.shape[1]:
        raise BagDataError(f"label={label}: the model has labels 0 to {values.shape[1] - 1}.")
    return values[:, label]


def _instances_of(bags: Bags, name: str) -> slice:
    number = bags.ids.index(name)
    return slice(int(bags.offsets[number]), int(bags.offsets[number + 1]))


def _unit_square(ax: Axes, across: str, up: str) -> None:
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
