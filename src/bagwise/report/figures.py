"""Pictures as data URIs, so that the page needs nothing beside it."""

import base64
import io
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imsave
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from bagwise.inference.loop import Trace
from bagwise.metrics import reliability_curve
from bagwise.plots import (
    CURVES,
    PALE,
    ConfusionDisplay,
    ReliabilityDisplay,
    TraceDisplay,
    open_frame,
    plain_legend,
    scaled,
)

Floats = NDArray[np.float64]
Curves = dict[str, tuple[Floats, Floats]]  # name -> truth (0, 1, NaN) and probability

INK = "#222222"
LARGEST_SIDE = 48  # pixels of an instance's image; more would only make the page heavy


def reliability_figure(curves: Curves) -> str:
    """Predicted probability against observed frequency, one line per curve."""

    def draw(ax: Axes) -> None:
        for (name, (truth, proba)), colour in zip(curves.items(), CURVES, strict=False):
            ReliabilityDisplay(reliability_curve(truth, proba), name=name).plot(ax, color=colour)

    return _figure(draw, (4.4, 4.2))


def roc_figure(curves: Curves) -> str:
    """True against false positive rate, one line per curve that has both classes."""

    def draw(ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], color=PALE, linewidth=1.5)
        for (name, (truth, proba)), colour in zip(curves.items(), CURVES, strict=False):
            known = ~np.isnan(truth)
            false_rate, true_rate, _ = roc_curve(truth[known], proba[known])
            ax.plot(false_rate, true_rate, color=colour, linewidth=1.8, label=name, clip_on=False)
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        plain_legend(ax, "lower right")
        open_frame(ax, keep=("left", "bottom"))

    return _figure(draw, (4.4, 4.2))


def display_figure(display: Any, height: float = 4.2) -> str:
    """Any display with a ``plot``, so many inches high."""
    return _figure(display.plot, (4.4, height))


def confusion_figure(truth: Any, predicted: Any, classes: Any, candidates: Any) -> str:
    """True classes of bags against predicted ones; wrong answers that the candidates leave open are counted apart."""

    def draw(ax: Axes) -> None:
        ConfusionDisplay.from_predictions(truth, predicted, classes=classes, candidates=candidates, ax=ax)

    side = 0.5 * len(classes)
    return _figure(draw, (1.9 + side, 1.7 + side))


def trace_figure(trace: Trace) -> str:
    """The objective of every iteration; the view leaves out a start that would flatten all that follows."""

    def draw(ax: Axes) -> None:
        TraceDisplay(trace.values, name=trace.name, converged=trace.converged).plot(ax)
        view = course_view(trace.values)
        if view is not None:
            ax.set_ylim(*view)

    return _figure(draw, (4.4, 4.2))


def course_view(values: Floats) -> tuple[float, float] | None:
    """Lowest and highest value to show, by the last three quarters of the course; None where everything fits."""
    later = values[len(values) // 4 :]
    later = later[np.isfinite(later)]
    if len(later) < 2 or np.ptp(later) == 0:
        return None
    low, high, spread = float(later.min()), float(later.max()), float(np.ptp(later))
    far = (values < low - 5.0 * spread) | (values > high + 5.0 * spread)
    return (low - 0.3 * spread, high + 0.3 * spread) if far.any() else None


def image_uri(image: Floats, low: float, high: float) -> str:
    """One instance as a small PNG, dark where the value is high (colours as they are)."""
    stride = -(-max(image.shape[:2]) // LARGEST_SIDE)
    stream = io.BytesIO()
    imsave(stream, scaled(image[::stride, ::stride], low, high), cmap="gray_r", vmin=0, vmax=1, format="png")
    return png_uri(stream.getvalue())


def _figure(draw: Callable[[Axes], object], size: tuple[float, float]) -> str:
    with matplotlib.rc_context({"svg.hashsalt": "bagwise", "font.size": 10, "axes.labelcolor": INK}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _uri("image/svg+xml", stream.getvalue())


def png_uri(content: bytes) -> str:
    """A picture that is there already."""
    return _uri("image/png", content)


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
