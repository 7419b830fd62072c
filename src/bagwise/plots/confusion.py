"""Which classes are taken for which, and whether candidates had left the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import as_bags
from bagwise.evidence.classes import given_classes
from bagwise.exceptions import BagDataError
from bagwise.plots._style import GREY, ORANGE, Floats, _Display, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ConfusionDisplay(_Display):
    """True classes of bags (rows) against predicted ones (columns), as numbers of bags.

    Where candidates are known, a small number says how many bags of a cell had the predicted class among theirs: such
    a wrong answer is one that the candidates had left open.
    """

    def __init__(
        self, counts: NDArray[np.int64], classes: NDArray[Any], open_: NDArray[np.int64] | None = None
    ) -> None:
        self.counts, self.classes, self.open_ = counts, classes, open_

    @classmethod
    def from_predictions(
        cls, y: Any, predicted: Any, *, classes: Any = None, candidates: Any = None, ax: Axes | None = None
    ) -> Self:
        """From true and predicted classes; ``candidates`` is a (B, K) table of 0/1 in the order of ``classes``."""
        truth, found = np.asarray(y), np.asarray(predicted)
        if truth.shape != found.shape or truth.ndim != 1:
            raise BagDataError(
                f"expected one true and one predicted class per bag, got shapes {truth.shape} and {found.shape}."
            )
        names = np.unique(np.concatenate([truth, found])) if classes is None else np.asarray(classes)
        rows, columns = (_places(values, names) for values in (truth, found))
        shape = (len(names), len(names))
        counts = _counted(rows, columns, np.ones(len(rows), dtype=bool), shape)
        if candidates is None:
            return cls(counts, names).plot(ax)
        table = np.asarray(candidates).astype(bool)
        if table.shape != (len(rows), len(names)):
            raise BagDataError(
                f"candidates: expected a table of 0/1 of shape {(len(rows), len(names))}, got shape {table.shape}."
            )
        return cls(counts, names, _counted(rows, columns, table[np.arange(len(rows)), columns], shape)).plot(ax)

    @classmethod
    def from_estimator(cls, model: Any, bags: Any, y: Any, *, candidates: Any = None, ax: Axes | None = None) -> Self:
        """From a fitted model of classes, bags and their true classes; ``candidates`` as ``fit`` takes them."""
        if not model.of_classes:
            raise BagDataError(f"{type(model).__name__} was not fitted to classes; there is nothing to confuse.")
        table = None
        if candidates is not None:
            shown = model.instance_classes_[:-1]
            sets = given_classes(candidates, as_bags(bags), shown, keyed=True).filled(
                none=len(shown) < len(model.classes_)
            )
            table = sets[:, : len(model.classes_)]
        return cls.from_predictions(y, model.predict(bags), classes=model.classes_, candidates=table, ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw; shades are shares of a row, so that rare classes can be read."""
        n = len(self.classes)
        ax = self._start(ax, (1.8 + 0.6 * n, 1.4 + 0.6 * n))
        ax.imshow(_shares(self.counts), cmap="Blues", vmin=0.0, vmax=1.3)
        for row, column in zip(*np.nonzero(self.counts), strict=True):
            wrong = row != column
            ax.text(
                column, row, f"{self.counts[row, column]}", ha="center", va="center", color=ORANGE if wrong else "k"
            )
            if self.open_ is not None and wrong:
                left = f"{self.open_[row, column]} open"
                ax.text(column, row + 0.36, left, ha="center", va="center", color=GREY, fontsize=7)
        names = [str(name) for name in self.classes]
        ax.set_xticks(range(n), names, rotation=45 if max(map(len, names)) > 3 else 0, parse_math=False)
        ax.set_yticks(range(n), names, parse_math=False)
        ax.set(xlabel="predicted class", ylabel="true class")
        open_frame(ax, keep=())
        return self


def _places(values: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    place = {name: number for number, name in enumerate(classes.tolist())}
    strange = [name for name in values.tolist() if name not in place]
    if strange:
        raise BagDataError(f"{strange[0]!r} is none of the classes {classes.tolist()}.")
    return np.array([place[name] for name in values.tolist()], dtype=np.int64)


def _counted(
    rows: NDArray[np.int64], columns: NDArray[np.int64], chosen: NDArray[np.bool_], shape: tuple[int, int]
) -> NDArray[np.int64]:
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (rows[chosen], columns[chosen]), 1)
    return counts


def _shares(counts: NDArray[np.int64]) -> Floats:
    shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares
