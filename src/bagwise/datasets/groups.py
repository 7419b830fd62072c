"""Groups with a known share of positives: clusters and waves in the plane, and an election in districts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.utils import check_random_state

from bagwise._validation import check_count, check_option
from bagwise.bags import Bags
from bagwise.datasets.dealing import Floats, Ints, Random, Range, deal, draw_range, draw_rows
from bagwise.exceptions import BagDataError

VOTER_FEATURES = ("age", "income", "education")
_CLUSTER, _TIGHT, _DIFFUSE = (1.0, 0.8), 0.6, 2.0


def make_groups(
    group_size: int | Sequence[int] = 8,
    positives: Sequence[int] | None = None,
    *,
    n_groups: int = 75,
    n_mixed: int = 13,
    boundary: str = "cluster",
    random_state: Random = None,
) -> tuple[Bags, Floats, Ints]:
    """Groups of points in the plane with the fraction of positives in each.

    Parameters
    ----------
    group_size : points per group, a number for ``n_groups`` of them or one number for every group
    positives : number of positives in every group; None puts 1 to 6 into ``n_mixed`` random groups and none elsewhere
        (with the defaults 600 points, 62 of 75 groups negative, as in the synthetic set of Kück & de Freitas)
    boundary : "cluster", a tight cluster of positives inside a diffuse mass of negatives, or "wave", standard normal
        points that are positive above the wave of ``make_bags``

    Returns
    -------
    bags, fractions, instance_y
    """
    random = check_random_state(random_state)
    check_option("boundary", boundary, ("cluster", "wave"))
    sizes = _sizes(group_size, n_groups)
    n_positive = _mixed(sizes, n_mixed, random) if positives is None else _given(positives, sizes)
    n_inside, n_outside = int(n_positive.sum()), int((sizes - n_positive).sum())
    if boundary == "wave":
        inside, outside = (draw_rows(n, 2, 0.0, side, random) for n, side in ((n_inside, 1), (n_outside, -1)))
    else:
        inside = np.array(_CLUSTER) + _TIGHT * random.standard_normal((n_inside, 2))
        outside = _DIFFUSE * random.standard_normal((n_outside, 2))
    bags, _, instance_y = deal(inside, outside, sizes, n_positive, None, random)
    return bags, n_positive / sizes, instance_y


def vote_chance(X: Any) -> Floats:
    """The truth behind ``make_election``: the chance of a person (age, income, education) to vote purple.

    Education makes purple more likely, age less, but less so for the educated; incomes in the middle lean towards
    purple, very low and very high ones away from it.
    """
    age, income, education = np.asarray(X, dtype=np.float64).T
    years, school, money = (age - 47.0) / 16.0, (education - 13.0) / 2.5, np.log2(income / 38.0)
    lean: Floats = 0.9 + 0.9 * school - 1.1 * years * (1.0 - 0.3 * np.tanh(school)) - 1.1 * money**2
    return np.asarray(ndtr(1.4 * lean), dtype=np.float64)


def make_election(
    n_districts: int = 60, voters: Range = 40, *, contrast: float = 1.0, random_state: Random = None
) -> tuple[Bags, Floats, Ints]:
    """An election: people with age (years), income (thousands) and education (years), by district.

    Districts differ in who lives there: old or young, rich or poor, schooled or not; ``contrast`` 1 gives differences
    between districts about as large as those within, 0 deals people out at random. How a person votes depends on the
    person only (``vote_chance``), never on the district.

    Returns
    -------
    bags, shares, votes : the result of every district, and what nobody publishes: every vote
    """
    random = check_random_state(random_state)
    if not contrast >= 0.0:
        raise BagDataError(f"contrast={contrast!r}: expected a number of at least 0.")
    sizes = draw_range("voters", voters, check_count("n_districts", n_districts), random)
    district = np.repeat(np.arange(n_districts), sizes)
    own, shared = random.standard_normal((len(district), 3)), contrast * random.standard_normal((n_districts, 3))
    age, money, school = ((own + shared[district]) / np.sqrt(1.0 + contrast**2)).T
    age_years = np.clip(np.round(47.0 + 16.0 * age), 18, 95)
    income = np.round(38.0 * 2.0 ** (0.8 * (0.8 * money + 0.6 * school)), 1)
    X = np.column_stack([age_years, income, np.clip(np.round(13.0 + 2.5 * school), 4, 22)])
    votes = (random.random_sample(len(X)) < vote_chance(X)).astype(np.int64)
    width = len(str(n_districts - 1))
    names = np.array([f"district {number:0{width}d}" for number in range(n_districts)], dtype=object)
    bags = Bags(X, names[district], feature_names=list(VOTER_FEATURES))
    shares: NDArray[np.float64] = np.bincount(district, votes, n_districts) / sizes
    return bags, shares, votes


def _sizes(group_size: int | Sequence[int], n_groups: int) -> Ints:
    if isinstance(group_size, Sequence):
        return np.array([check_count("group_size", size) for size in group_size])
    return np.full(check_count("n_groups", n_groups), check_count("group_size", group_size))


def _mixed(sizes: Ints, n_mixed: int, random: Any) -> Ints:
    if check_count("n_mixed", n_mixed, least=0) > len(sizes):
        raise BagDataError(f"n_mixed={n_mixed}: there are only {len(sizes)} groups.")
    mixed = random.permutation(len(sizes)) < n_mixed
    return np.where(mixed, np.minimum(random.randint(1, 7, len(sizes)), sizes), 0)


def _given(positives: Sequence[int], sizes: Ints) -> Ints:
    counts = np.array([check_count("positives", count, least=0) for count in positives])
    if counts.shape != sizes.shape or (counts > sizes).any():
        raise BagDataError(f"positives={positives!r}: expected a number for every group, up to its size ({sizes}).")
    return counts
