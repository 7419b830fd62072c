"""Drawing rows and dealing them into bags: what the generators of ``datasets`` share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import check_count
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Range = int | tuple[int, int]
Random = Any  # an int, a numpy RandomState or None
DIGIT_FEATURES = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]  # of scikit-learn's digits


def wave(X: Any) -> Floats:
    """The truth behind ``make_bags``: an instance is positive exactly where this is above zero.

    A smooth wave in the plane of the first two features, ``x2 - 1 - sin(2 x1)`` (``-1 - sin(2 x1) + x1`` with a single
    feature); the other features do not matter.
    """
    X = np.asarray(X, dtype=np.float64)
    height: Floats = X[:, min(1, X.shape[1] - 1)] - 1.0 - np.sin(2.0 * X[:, 0])
    return height


def draw_counts(n_bags: int, bag_size: Range, positives: Range, positive_rate: float, random: Any) -> tuple[Ints, Ints]:
    """Sizes of the bags and numbers of positives in them; which bags are positive is left to chance."""
    check_count("n_bags", n_bags)
    if not 0.0 <= positive_rate <= 1.0:
        raise BagDataError(f"positive_rate={positive_rate!r}: expected a share between 0 and 1.")
    sizes = draw_range("bag_size", bag_size, n_bags, random)
    n_positive = np.minimum(draw_range("positives", positives, n_bags, random), sizes)
    is_positive = random.permutation(n_bags) < round(positive_rate * n_bags)
    return sizes, np.where(is_positive, n_positive, 0)


def draw_range(name: str, limits: Range, n: int, random: Any) -> Ints:
    """n whole numbers, all the same or from a range (lowest, highest)."""
    pair = tuple(limits) if isinstance(limits, Sequence) else (limits, limits)
    if len(pair) != 2:
        raise BagDataError(f"{name}={limits!r}: expected a number or a range (lowest, highest).")
    lowest, highest = (check_count(name, limit) for limit in pair)
    if highest < lowest:
        raise BagDataError(f"{name}={limits!r}: the lowest number comes first.")
    drawn: Ints = random.randint(lowest, highest + 1, size=n)
    return drawn


def draw_rows(n: int, n_features: int, margin: float, side: int, random: Any) -> Floats:
    """Standard normal rows on one side of the wave, by rejection."""
    kept = np.empty((0, n_features))
    while len(kept) < n:
        rows = random.standard_normal((4 * n + 16, n_features))
        kept = np.concatenate([kept, rows[side * wave(rows) > margin]])
    return kept[:n]


def deal(
    inside: Floats, outside: Floats, sizes: Ints, n_positive: Ints, names: list[str] | None, random: Any
) -> tuple[Bags, Ints, Ints]:
    """Deal positives and negatives into the bags and shuffle within each."""
    index = np.repeat(np.arange(len(sizes)), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    instance_y = (np.arange(len(index)) - first < n_positive[index]).astype(np.int64)
    X = np.empty((len(index), inside.shape[1]))
    X[instance_y == 1], X[instance_y == 0] = inside, outside
    shuffled = np.lexsort([random.random_sample(len(index)), index])
    bags = Bags(X[shuffled], bag_names(len(sizes))[index], feature_names=names)
    return bags, (n_positive > 0).astype(np.int64), instance_y[shuffled]


def bag_names(n_bags: int) -> NDArray[np.object_]:
    """Numbers of one width."""
    width = len(str(n_bags - 1))
    return np.array([f"{number:0{width}d}" for number in range(n_bags)], dtype=object)
