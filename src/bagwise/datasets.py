"""Bags to try things on: a generator with known truth, and bags of scikit-learn's handwritten digits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from bagwise._validation import check_count
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.io.npz import read_npz

__all__ = ["load_digit_bags", "make_bags", "read_npz", "wave"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Range = int | tuple[int, int]
Random = Any  # an int, a numpy RandomState or None


def wave(X: Any) -> Floats:
    """The truth behind ``make_bags``: an instance is positive exactly where this is above zero.

    A smooth wave in the plane of the first two features, ``x2 - 1 - sin(2 x1)`` (``-1 - sin(2 x1) + x1`` with a single
    feature); the other features do not matter.
    """
    X = np.asarray(X, dtype=np.float64)
    height: Floats = X[:, min(1, X.shape[1] - 1)] - 1.0 - np.sin(2.0 * X[:, 0])
    return height


def make_bags(
    n_bags: int = 100,
    bag_size: Range = 10,
    n_features: int = 2,
    *,
    positives: Range = (1, 3),
    positive_rate: float = 0.5,
    margin: float = 0.0,
    random_state: Random = None,
) -> tuple[Bags, Ints, Ints]:
    """Bags with known truth: standard normal instances, positive where ``wave`` is above zero.

    Parameters
    ----------
    n_bags, n_features : how many
    bag_size : instances per bag, a number or a range (lowest, highest)
    positives : positive instances in a positive bag, a number or a range; never more than the bag holds
    positive_rate : share of positive bags (rounded to whole bags); the others hold no positive at all
    margin : keep instances out where ``|wave| < margin``

    Returns
    -------
    bags, y, instance_y : the labels are 0 and 1
    """
    check_count("n_features", n_features)
    random = check_random_state(random_state)
    sizes, n_positive = _draw_counts(n_bags, bag_size, positives, positive_rate, random)
    inside = _draw_rows(int(n_positive.sum()), n_features, margin, +1, random)
    outside = _draw_rows(int((sizes - n_positive).sum()), n_features, margin, -1, random)
    return _assemble(inside, outside, sizes, n_positive, None, random)


def load_digit_bags(
    target: int = 9,
    n_bags: int = 150,
    bag_size: Range = (6, 12),
    positives: Range = (1, 3),
    positive_rate: float = 0.5,
    random_state: Random = 0,
) -> tuple[Bags, Ints, Ints]:
    """Bags of handwritten digits: is there a ``target`` among them?

    The images are scikit-learn's own (8 × 8 pixels of 0 … 16, features ``pixel_0_0`` … ``pixel_7_7``). No image is used
    twice, so bags can be split into training and test without sharing one. Arguments as in ``make_bags``.

    Returns
    -------
    bags, y, instance_y : 1 where the bag holds the target, 1 where the instance is the target
    """
    digits = load_digits()
    if target not in digits.target_names:
        raise BagDataError(f"target={target!r}: expected a digit, 0 to 9.")
    random = check_random_state(random_state)
    sizes, n_positive = _draw_counts(n_bags, bag_size, positives, positive_rate, random)
    is_target = digits.target == target
    inside = _take(digits.data[is_target], int(n_positive.sum()), f"of the digit {target}", random)
    outside = _take(digits.data[~is_target], int((sizes - n_positive).sum()), "of other digits", random)
    names = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    return _assemble(inside, outside, sizes, n_positive, names, random)


def _draw_counts(
    n_bags: int, bag_size: Range, positives: Range, positive_rate: float, random: Any
) -> tuple[Ints, Ints]:
    """Sizes of the bags and numbers of positives in them; which bags are positive is left to chance."""
    check_count("n_bags", n_bags)
    if not 0.0 <= positive_rate <= 1.0:
        raise BagDataError(f"positive_rate={positive_rate!r}: expected a share between 0 and 1.")
    sizes = _draw_range("bag_size", bag_size, n_bags, random)
    n_positive = np.minimum(_draw_range("positives", positives, n_bags, random), sizes)
    is_positive = random.permutation(n_bags) < round(positive_rate * n_bags)
    return sizes, np.where(is_positive, n_positive, 0)


def _draw_range(name: str, limits: Range, n: int, random: Any) -> Ints:
    pair = tuple(limits) if isinstance(limits, Sequence) else (limits, limits)
    if len(pair) != 2:
        raise BagDataError(f"{name}={limits!r}: expected a number or a range (lowest, highest).")
    lowest, highest = (check_count(name, limit) for limit in pair)
    if highest < lowest:
        raise BagDataError(f"{name}={limits!r}: the lowest number comes first.")
    drawn: Ints = random.randint(lowest, highest + 1, size=n)
    return drawn


def _draw_rows(n: int, n_features: int, margin: float, side: int, random: Any) -> Floats:
    """Standard normal rows on one side of the wave, by rejection."""
    kept = np.empty((0, n_features))
    while len(kept) < n:
        rows = random.standard_normal((4 * n + 16, n_features))
        kept = np.concatenate([kept, rows[side * wave(rows) > margin]])
    return kept[:n]


def _take(images: Floats, n: int, which: str, random: Any) -> Floats:
    if n > len(images):
        raise BagDataError(
            f"these bags need {n} different images {which}, and there are {len(images)}: "
            "ask for fewer bags, smaller bags or another share of positives."
        )
    taken: Floats = images[random.permutation(len(images))[:n]]
    return taken


def _assemble(
    inside: Floats, outside: Floats, sizes: Ints, n_positive: Ints, names: list[str] | None, random: Any
) -> tuple[Bags, Ints, Ints]:
    """Deal positives and negatives into the bags and shuffle within each."""
    index = np.repeat(np.arange(len(sizes)), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    instance_y = (np.arange(len(index)) - first < n_positive[index]).astype(np.int64)
    X = np.empty((len(index), inside.shape[1]))
    X[instance_y == 1], X[instance_y == 0] = inside, outside
    shuffled = np.lexsort([random.random_sample(len(index)), index])
    width = len(str(len(sizes) - 1))
    ids = np.array([f"{number:0{width}d}" for number in range(len(sizes))], dtype=object)
    bags = Bags(X[shuffled], ids[index], feature_names=names)
    return bags, (n_positive > 0).astype(np.int64), instance_y[shuffled]
