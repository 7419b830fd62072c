"""Folds of one's own bags: whole groups, both classes, and refusals that say what to do."""

import numpy as np
import pytest
from tests.problems import random_bags

from bagwise.compare.folds import draw_folds, groups_of_bags
from bagwise.exceptions import BagDataError


@pytest.mark.parametrize("stratify", [True, False])
def test_no_fold_cuts_a_group(stratify):
    random = np.random.default_rng(0)
    groups = random.integers(0, 25, 80)
    y = random.integers(0, 2, 80).astype(float)
    folds = draw_folds(y, groups, 5, 3, 0, stratify=stratify)
    assert folds.shape == (3, 80)
    for repeat in folds:
        assert set(repeat) == set(range(5))
        assert all(len(set(repeat[groups == group])) == 1 for group in set(groups))
    assert (folds[0] != folds[1]).any()


def test_every_fold_gets_its_share_of_both_classes():
    y = np.repeat([0.0, 1.0], [40, 20])
    (folds,) = draw_folds(y, None, 5, 1, 0, stratify=True)
    assert [y[folds == fold].tolist().count(1.0) for fold in range(5)] == [4] * 5


@pytest.mark.parametrize(
    ("y", "groups", "message"),
    [
        ([0, 0, 1, 1, 1], None, "only 2 bags hold a bag that is negative.*at most --folds 2"),
        ([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 2, 3], "only 1 groups hold a bag that is negative.*label more bags first"),
        ([0, 1, 0, 1], [0, 0, 1, 1], "there are only 2 groups"),
    ],
)
def test_too_many_folds_are_refused_with_the_largest_number(y, groups, message):
    numbers = None if groups is None else np.array(groups)
    with pytest.raises(BagDataError, match=message):
        draw_folds(np.array(y, dtype=float), numbers, 3, 1, 0, stratify=True)


def test_group_is_read_per_bag_or_per_instance_and_a_bag_in_two_groups_is_named():
    bags = random_bags(np.random.default_rng(0), n_bags=6, sizes=(2, 4))
    per_bag = np.array(["a", "a", "b", "b", "c", "c"])
    expected = [0, 0, 1, 1, 2, 2]
    assert groups_of_bags(per_bag, bags).tolist() == expected
    assert groups_of_bags(per_bag[bags.index], bags).tolist() == expected
    torn = per_bag[bags.index].copy()
    torn[1] = "z"
    with pytest.raises(BagDataError, match=f"bag '{bags.ids[0]}' belongs to two groups, 'a' and 'z'"):
        groups_of_bags(torn, bags)
    with pytest.raises(BagDataError, match="its group is missing"):
        groups_of_bags([None, "a", "b", "b", "c", "c"], bags)
    with pytest.raises(BagDataError, match="expected one entry per bag"):
        groups_of_bags(["a"], bags)
