"""What a baseline has learned: arrays and numbers that make a score of a bag, and nothing of the constructor."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from torch import Tensor

from bagwise.bags import Bags
from bagwise.numerics.blocks import blocks
from bagwise.numerics.segments import Segments

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Machine:
    """Fields are numbers, words, arrays of doubles and other machines: so a file can hold any of them."""

    kinds: ClassVar[dict[str, type["Machine"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Machine.kinds[cls.__name__] = cls

    def scores(self, bags: Bags) -> Floats:
        """(B,) one number per bag, above 0 where the machine itself calls the bag positive."""
        raise NotImplementedError


def kernel_matrix(X: Floats, Z: Floats, gamma: float) -> Floats:
    """The inner products of rows where ``gamma`` is 0, else exp(-gamma |x - z|²)."""
    found: Floats = X @ Z.T if gamma == 0.0 else rbf_kernel(X, Z, gamma)
    return found


@dataclass(frozen=True)
class RowFunction(Machine):
    """f(x) = Σ_s weight_s k(x, vector_s) + intercept."""

    vectors: Floats  # (S, D)
    weights: Floats  # (S,)
    intercept: float
    gamma: float  # 0 for the linear kernel

    @classmethod
    def of(cls, rows: Floats, weights: Floats, intercept: float, gamma: float) -> "RowFunction":
        """Without the rows that have no weight; with a linear kernel all of them in one."""
        if gamma == 0.0:
            return cls((weights @ rows)[None, :], np.ones(1), float(intercept), gamma)
        used = weights != 0.0
        used[0] |= not used.any()
        return cls(rows[used], weights[used], float(intercept), gamma)

    def values(self, X: Floats) -> Floats:
        """f of every row."""
        found = np.empty(len(X))
        for part in blocks(len(X), len(self.vectors)):
            found[part] = kernel_matrix(X[part], self.vectors, self.gamma) @ self.weights
        return found + self.intercept


@dataclass(frozen=True)
class LargestRow(Machine):
    """A bag is as positive as the most positive of its rows."""

    function: RowFunction

    def scores(self, bags: Bags) -> Floats:
        """(B,) maxima."""
        return largest(self.function.values(bags.X), bags)


@dataclass(frozen=True)
class MeanRow(Machine):
    """A bag is as positive as its rows on average."""

    function: RowFunction

    def scores(self, bags: Bags) -> Floats:
        """(B,) means."""
        return bag_means(self.function.values(bags.X), bags)


@dataclass(frozen=True)
class Calibrated(Machine):
    """log odds = slope · score + intercept, bent so that they stay below the limit; a constant where slope is 0."""

    slope: float
    intercept: float
    limit: float  # of the log odds
    machine: Machine | None

    def scores(self, bags: Bags) -> Floats:
        """(B,) log odds that the bag is positive."""
        if self.machine is None or self.slope == 0.0:
            return np.full(len(bags), self.intercept)
        straight = self.slope * self.machine.scores(bags) + self.intercept
        return self.limit * np.tanh(straight / self.limit)


def largest(values: NDArray[Any], bags: Bags) -> NDArray[Any]:
    """The maximum over each bag, of every column."""
    found: NDArray[Any] = np.maximum.reduceat(values, bags.offsets[:-1])
    return found


def bag_means(values: Floats, bags: Bags) -> Floats:
    """The mean over each bag, of every column."""
    sizes = bags.sizes if values.ndim == 1 else bags.sizes[:, None]
    found: Floats = np.add.reduceat(values, bags.offsets[:-1]) / sizes
    return found


def first_largest(values: Floats, bags: Bags) -> NDArray[np.int64]:
    """(B,) the first row of each bag whose value is the largest."""
    is_largest = values == np.repeat(largest(values, bags), bags.sizes)
    return np.minimum.reduceat(np.where(is_largest, np.arange(len(values)), len(values)), bags.offsets[:-1])


def rows_for_torch(bags: Bags) -> tuple[Tensor, Segments]:
    """Rows and bags for torch."""
    return torch.tensor(bags.X), Segments(torch.tensor(bags.offsets))


def as_bags_of_one(bags: Bags) -> Bags:
    """Every row as a bag."""
    return Bags(bags.X, np.arange(bags.n_instances))
