"""Rates of groups from totals: with their ranges and bounds, and every bag as a line of what its totals allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bagwise.exceptions import BagDataError
from bagwise.plots._style import BLUE, CURVES, GREY, PALE, _Display, open_frame, unit_square

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RatesDisplay(_Display):
    """The rate of every group and outcome: a dot with its range, on a pale bar of what arithmetic alone allows."""

    def __init__(self, table: Any, set_name: str | None = None) -> None:
        self.table = table
        self.set_number = 0 if set_name is None else _place(table.sets, set_name)

    @classmethod
    def from_table(cls, table: Any, set_name: str | None = None, *, ax: Axes | None = None) -> Self:
        """From a ``GroupTable``; ``set_name`` is one of its sets, the first where it is None."""
        return cls(table, set_name).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; outcomes stand side by side in their colours."""
        table, at = self.table, self.set_number
        n_groups, n_outcomes = len(table.groups), len(table.outcomes)
        ax = self._start(ax, (5.6, 0.9 + 0.34 * n_groups * n_outcomes))
        for outcome, name in enumerate(table.outcomes):
            colour = CURVES[outcome % len(CURVES)]
            height = np.arange(n_groups) * (n_outcomes + 1.0) + outcome
            low, high, mean = (part[at, :, outcome] for part in (table.lower, table.upper, table.mean))
            ax.hlines(height, table.least[at, :, outcome], table.most[at, :, outcome], color=PALE, linewidth=9)
            ax.hlines(height, low, high, color=colour, linewidth=2.2)
            ax.scatter(mean, height, s=28, color=colour, zorder=3, label=name, clip_on=False)
        middle = np.arange(n_groups) * (n_outcomes + 1.0) + 0.5 * (n_outcomes - 1)
        ax.set(xlim=(0, 1), xlabel=f"rate, {table.level:.0%} range, bounds", yticks=middle, yticklabels=table.groups)
        ax.invert_yaxis()
        if n_outcomes > 1:
            legend = ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
            for text in legend.get_texts():
                text.set_parse_math(False)
        open_frame(ax, keep=("bottom",))
        return self


class TomographyDisplay(_Display):
    """Two groups: the line of pairs of rates that the totals of a bag allow, and where the model puts the bag on it.

    King (1997) calls it a tomography plot: each bag is a line through the unit square, from its bounds.
    """

    def __init__(self, table: Any, outcome: int = 0) -> None:
        if len(table.groups) != 2:
            raise BagDataError(f"a tomography plot shows two groups; the table has {len(table.groups)}.")
        self.table, self.outcome = table, outcome

    @classmethod
    def from_table(cls, table: Any, outcome: int = 0, *, ax: Axes | None = None) -> Self:
        """From a ``GroupTable`` made with ``sets="bags"``; ``outcome`` is the number of the outcome."""
        return cls(table, outcome).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; bags in which one group has nobody are left out."""
        ax, table = self._start(ax, (4.6, 4.6)), self.table
        there = (table.people > 0).all(axis=1)
        least, most, mean = (part[there][..., self.outcome] for part in (table.least, table.most, table.mean))
        across, up = np.stack([least[:, 0], most[:, 0]]), np.stack([most[:, 1], least[:, 1]])
        ax.plot(across, up, color=GREY, alpha=0.35, linewidth=0.8)
        ax.scatter(mean[:, 0], mean[:, 1], s=12, color=BLUE, zorder=3, clip_on=False)
        unit_square(ax, f"rate of {table.groups[0]}", f"rate of {table.groups[1]}")
        return self


def _place(names: tuple[str, ...], wanted: str) -> int:
    if wanted not in names:
        raise BagDataError(f"set_name={wanted!r}: the table has the sets {', '.join(map(repr, names[:12]))}.")
    return names.index(wanted)
