"""What bags hold: labels by id, known instances, other features."""

import numpy as np
import pandas as pd
import pytest
from tests.bag_tables import new_bags, new_X

from bagwise import Bags
from bagwise.exceptions import BagDataError


@pytest.fixture
def X():
    return new_X()


@pytest.fixture
def bags(X):
    return new_bags(X)


@pytest.mark.parametrize(
    "y",
    [
        {"a": 1, "b": 0, "c": None},
        pd.Series([1, 0, None], index=["a", "b", "c"], dtype=object),
        pd.Series({"c": None, "b": 0, "a": 1}, dtype=object),
    ],
)
def test_align_puts_labels_in_the_order_of_the_bags(bags, y):
    assert bags.align(y).tolist() == [0, 1, None]


def test_align_matches_numbers_with_their_text_and_repeats_with_the_bags():
    bags = Bags(np.zeros((2, 1)), [10, 2])
    assert bags.align({2: "x", 10: "y"}).tolist() == ["y", "x"]
    assert bags[[1, 1, 0]].align(pd.Series([5, 6], index=[10, 2])).tolist() == [6, 6, 5]
    table = pd.DataFrame({"p": [0, 1], "q": [1, 1]}, index=["2", "10"])
    assert bags.align(table).tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ({"a": 1, "b": 0}, "no entry for bag 'c'"),
        ({"a": 1, "b": 0, "c": 1, "d": 1}, "an entry for an unknown bag 'd'"),
        ({"a": 1, "B": 0, "c": 1}, "no entry for bag 'b' and an entry for an unknown bag 'B'"),
        (pd.Series([1, 0, 1, 0], index=["a", "b", "c", "a"]), "name bag 'a' more than once"),
        ([1, 0, 1], "expected a dict, Series or DataFrame keyed by bag id, got list"),
    ],
)
def test_labels_of_other_bags_are_refused_by_name(bags, y, message):
    with pytest.raises(BagDataError, match=message):
        bags.align(y)


def test_known_labels_enter_by_the_front_door_only(bags):
    assert bags.with_known(None).known is None
    z = [1, None, 0, pd.NA, 1, 0]
    np.testing.assert_array_equal(bags.with_known(z).known, [1, np.nan, 0, np.nan, 1, 0])
    np.testing.assert_array_equal(bags.with_known(np.arange(6) % 2)["a"].known, [1, 0])


@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([0, 1], r"shape \(6,\), got shape \(2,\)"),
        ([0, 1, 2, 0, 0, 0], "row 2 holds .*2.0"),
        (["p"] * 6, "expected 0, 1 or NaN for every instance"),
    ],
)
def test_known_labels_that_are_none_are_refused(bags, z, message):
    with pytest.raises(BagDataError, match=message):
        bags.with_known(z)


def test_with_features_keeps_everything_else(bags):
    other = bags.with_features(np.ones((6, 3)), ["p", "q", "r"])
    assert (other.ids, other.feature_names, other.n_features) == (bags.ids, ("p", "q", "r"), 3)
    np.testing.assert_array_equal(other.known, bags.known)
    assert bags.with_features(np.ones((6, 3))).feature_names is None
    with pytest.raises(BagDataError, match=r"one row per instance \(6\), got 5"):
        bags.with_features(np.ones((5, 3)))


def test_notebook_shows_the_first_bags_and_escapes_their_names():
    names = ["<script>alert(1)</script>", *map(str, range(11))]
    bags = Bags(np.zeros((12, 1)), names, feature_names=["<b>"], known=[1.0, *[np.nan] * 11])
    shown = bags._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "<b>&lt;" not in shown
    assert "4 more bags" in shown
    assert "1 known instances" not in shown
    assert "1 known instance" in shown
