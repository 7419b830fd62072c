"""Generated bags keep what their documentation promises."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bagwise.datasets import load_digit_bags, make_bags, make_molecule_bags, read_npz, wave
from bagwise.exceptions import BagDataError


@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_made_bags_tell_the_truth(n_features):
    bags, y, instance_y = make_bags(60, (3, 8), n_features, positives=(1, 2), positive_rate=0.4, random_state=1)
    assert bags.shape == (60, n_features)
    assert bags.sizes.min() >= 3
    assert bags.sizes.max() <= 8
    np.testing.assert_array_equal(instance_y, wave(bags.X) > 0)
    counts = np.add.reduceat(instance_y, bags.offsets[:-1])
    np.testing.assert_array_equal(y, counts > 0)
    assert y.sum() == 24
    assert set(counts) == {0, 1, 2}


def test_one_shape_of_an_active_molecule_fits_the_receptor():
    bags, y, instance_y, relevant = make_molecule_bags(400, n_features=30, n_relevant=6, tightness=0.5, random_state=0)
    assert bags.shape == (400, 30)
    assert set(bags.sizes) == {3, 4, 5}
    np.testing.assert_array_equal(np.add.reduceat(instance_y, bags.offsets[:-1]), y)
    assert relevant.tolist() == [True] * 6 + [False] * 24
    fits = bags.X[instance_y == 1]
    assert (np.abs(fits.mean(axis=0)) > 0.4).tolist() == relevant.tolist()
    np.testing.assert_allclose(fits[:, :6].std(axis=0), 0.5, atol=0.1)
    np.testing.assert_allclose(bags.X[instance_y == 0].std(axis=0), 1.0, atol=0.15)
    with pytest.raises(BagDataError, match="only 5 features"):
        make_molecule_bags(n_features=5, n_relevant=6)


def test_a_bag_of_one_holds_at_most_one_positive():
    _, y, instance_y = make_bags(10, 1, random_state=0)
    np.testing.assert_array_equal(y, instance_y)


def test_the_same_seed_gives_the_same_bags():
    first, second, other = (make_bags(5, random_state=seed)[0].X for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_digit_bags_use_every_image_once():
    bags, y, instance_y = load_digit_bags()
    assert len(bags) == 150
    assert y.sum() == 75
    assert bags.feature_names[:9][-1] == "pixel_1_0"
    assert (bags.X.min(), bags.X.max()) == (0, 16)
    assert (bags.sizes.min(), bags.sizes.max()) == (6, 12)
    assert len(np.unique(bags.X, axis=0)) == bags.n_instances
    nines = {row.tobytes() for row in load_digits().data[load_digits().target == 9]}
    np.testing.assert_array_equal(instance_y, [row.tobytes() in nines for row in bags.X])
    np.testing.assert_array_equal(y, np.maximum.reduceat(instance_y, bags.offsets[:-1]))


def test_instances_stand_in_no_telling_order():
    bags, _, instance_y = load_digit_bags()
    position = np.arange(bags.n_instances) - bags.offsets[bags.index]
    assert len(np.unique(position[instance_y == 1])) > 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_bags": 400}, "different images of the digit 9, and there are 180"),
        ({"bag_size": 40, "positives": 1}, "of other digits, and there are 1617"),
        ({"target": 11}, "expected a digit"),
        ({"positive_rate": 1.5}, "between 0 and 1"),
        ({"bag_size": (9, 3)}, "lowest number comes first"),
        ({"bag_size": (1, 2, 3)}, "a number or a range"),
        ({"bag_size": 0}, "at least 1"),
        ({"n_bags": 2.5}, "whole number"),
    ],
)
def test_what_cannot_be_made_is_said(arguments, message):
    with pytest.raises(BagDataError, match=message):
        load_digit_bags(**arguments)


def test_read_npz_is_at_hand():
    assert read_npz.__module__ == "bagwise.io.npz"
