"""The course of an iteration, or the chains of a sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bagwise.exceptions import BagDataError
from bagwise.plots._style import BLUE, RED, _Display, open_frame, plain_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        chains = model.fit_record().chains
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
        color = BLUE if self.converged else RED
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
        ax.plot([], [], color=BLUE if self.converged else RED, label=word)
        ax.set(xlabel="sweep after the burn-in", ylabel=self.name)
