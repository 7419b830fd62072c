"""Rows of a source that are put aside when a pass over it comes by them, so that they are not read again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Shelf:
    """Room for announced rows, by their positions in the source.

    ``for_passes``: whether a pass over the source takes them from here. Otherwise they are for who asks for them alone.
    """

    def __init__(self, positions: Ints, width: int, dtype: Any, *, for_passes: bool = True) -> None:
        self.positions: Ints = ascending(positions)
        self.for_passes = for_passes
        self._values = np.empty((len(self.positions), width), dtype)
        self._there = np.zeros(len(self.positions), dtype=bool)

    def put(self, first: int, values: NDArray[Any]) -> None:
        """Take what was announced of a run of rows that begins at ``first``."""
        low, high = np.searchsorted(self.positions, [first, first + len(values)])
        whole = high - low == len(values)
        self._values[low:high] = values if whole else values[self.positions[low:high] - first]
        self._there[low:high] = True

    def fill(self, values: NDArray[Any]) -> None:
        """Take all announced rows at once."""
        self._values[:], self._there[:] = values, True

    def put_rows(self, positions: Ints, values: NDArray[Any]) -> None:
        """Take rows that were announced."""
        places = np.searchsorted(self.positions, positions)
        self._values[places], self._there[places] = values, True

    def missing(self) -> Ints:
        """Positions of the rows that have not come by yet."""
        return self.positions[~self._there]

    def all_rows(self) -> NDArray[Any] | None:
        """All announced rows in the order of the source; None while some are missing."""
        return self._values.copy() if self._there.all() else None

    def run(self, first: int, size: int) -> NDArray[Any] | None:
        """Rows one after the other; None where one of them is not here."""
        low, high = np.searchsorted(self.positions, [first, first + size])
        if high - low < size or not self._there[low:high].all():
            return None
        return self._values[low:high].copy()

    def at(self, positions: Ints) -> NDArray[Any] | None:
        """Rows in any order; None where one of them is not here."""
        places = np.searchsorted(self.positions, positions)
        if len(positions) and places.max() == len(self.positions):
            return None
        if not (np.array_equal(self.positions[places], positions) and self._there[places].all()):
            return None
        found: NDArray[Any] = self._values[places]
        return found


def ascending(positions: Ints) -> Ints:
    """Every position once, in order; without sorting where that is how they come."""
    in_order = bool((np.diff(positions) > 0).all())
    return positions if in_order else np.unique(positions)
