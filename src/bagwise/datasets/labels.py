"""Labelled bags: generators with known truth, and bags of scikit-learn's handwritten digits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from bagwise._validation import check_count
from bagwise.bags import Bags
from bagwise.datasets.dealing import DIGIT_FEATURES, Floats, Ints, Random, Range, deal, draw_counts, draw_rows
from bagwise.exceptions import BagDataError


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
    sizes, n_positive = draw_counts(n_bags, bag_size, positives, positive_rate, random)
    inside = draw_rows(int(n_positive.sum()), n_features, margin, +1, random)
    outside = draw_rows(int((sizes - n_positive).sum()), n_features, margin, -1, random)
    return deal(inside, outside, sizes, n_positive, None, random)


def make_molecule_bags(
    n_bags: int = 180,
    bag_size: Range = (3, 5),
    n_features: int = 283,
    n_relevant: int = 40,
    *,
    tightness: float = 1.0,
    positive_rate: float = 0.5,
    random_state: Random = None,
) -> tuple[Bags, Ints, Ints, NDArray[np.bool_]]:
    """Molecules in several shapes, active if one shape fits a receptor; most of what is measured does not matter.

    All features are standard normal. The receptor asks for a value of size 0.5 to 1 and either sign in each of the
    first ``n_relevant``; the shape that fits lies around these values with standard deviation ``tightness``.

    Returns
    -------
    bags, y, instance_y, relevant : labels of 0 and 1, and which features matter
    """
    if check_count("n_relevant", n_relevant) > check_count("n_features", n_features):
        raise BagDataError(f"n_relevant={n_relevant}: there are only {n_features} features.")
    random = check_random_state(random_state)
    receptor = random.uniform(0.5, 1.0, n_relevant) * random.choice([-1.0, 1.0], n_relevant)
    sizes, n_positive = draw_counts(n_bags, bag_size, 1, positive_rate, random)
    inside, outside = (
        random.standard_normal((int(count.sum()), n_features)) for count in (n_positive, sizes - n_positive)
    )
    inside[:, :n_relevant] = receptor + tightness * inside[:, :n_relevant]
    return *deal(inside, outside, sizes, n_positive, None, random), np.arange(n_features) < n_relevant


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
    sizes, n_positive = draw_counts(n_bags, bag_size, positives, positive_rate, random)
    is_target = digits.target == target
    inside = _take(digits.data[is_target], int(n_positive.sum()), f"of the digit {target}", random)
    outside = _take(digits.data[~is_target], int((sizes - n_positive).sum()), "of other digits", random)
    return deal(inside, outside, sizes, n_positive, DIGIT_FEATURES, random)


def _take(images: Floats, n: int, which: str, random: Any) -> Floats:
    if n > len(images):
        raise BagDataError(
            f"these bags need {n} different images {which}, and there are {len(images)}: "
            "ask for fewer bags, smaller bags or another share of positives."
        )
    taken: Floats = images[random.permutation(len(images))[:n]]
    return taken
