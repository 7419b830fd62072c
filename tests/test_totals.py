"""Rows that stand for many individuals."""

import numpy as np
import pandas as pd
import pytest

from bagwise import Bags
from bagwise.exceptions import BagDataError

TABLE = pd.DataFrame({"precinct": ["b", "a"], "men": [3, 0], "women": [1, 5], "income": [2.0, 7.0], "votes": [2, 4]})


def test_table_of_totals_becomes_one_row_per_group_and_bag():
    bags, votes = Bags.from_totals(TABLE, "precinct", ["men", "women"], features="income", label="votes")
    assert bags.ids == ("b", "a")
    assert bags.feature_names == ("men", "women", "income")
    np.testing.assert_array_equal(bags.X, [[1, 0, 2], [0, 1, 2], [1, 0, 7], [0, 1, 7]])
    np.testing.assert_array_equal(bags.weight, [3, 1, 0, 5])
    np.testing.assert_array_equal(bags.totals, [4, 5])
    np.testing.assert_array_equal(votes, [2, 4])


def test_weights_follow_their_rows_through_sorting_slicing_and_files(tmp_path):
    bags = Bags([[1.0], [2.0], [3.0]], ["x", "y", "x"], weight=[10, 20, 30])
    np.testing.assert_array_equal(bags.weight, [10, 30, 20])
    np.testing.assert_array_equal(bags[[1, 0]].weight, [20, 10, 30])
    np.testing.assert_array_equal(bags[1:].weight, [20])
    bags.save(tmp_path / "bags.npz")
    np.testing.assert_array_equal(Bags.load(tmp_path / "bags.npz").weight, bags.weight)
    assert bags.with_weight(None).weight is None


def test_repeated_rows_are_the_individuals():
    bags = Bags([[1.0], [2.0]], ["x", "x"], weight=[2, 3], known=[1, np.nan]).repeated()
    np.testing.assert_array_equal(bags.X[:, 0], [1, 1, 2, 2, 2])
    np.testing.assert_array_equal(bags.known[:2], [1, 1])
    assert bags.weight is None
    assert bags.sizes.tolist() == [5]


def test_weight_column_of_a_frame_is_no_feature():
    frame = pd.DataFrame({"bag": [1, 1, 2], "n": [4, 5, 6], "x": [0.1, 0.2, 0.3]})
    bags = Bags.from_frame(frame, "bag", weight="n")
    assert bags.feature_names == ("x",)
    np.testing.assert_array_equal(bags.weight, [4, 5, 6])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1], "row 1 holds"),
        ([1, 1.5], "whole number of at least 0"),
        ([1], "one whole number per row"),
        ([0, 0], "bag 'x' is empty"),
        (["a", "b"], "whole numbers"),
    ],
)
def test_bad_weights_are_refused_with_their_row(weight, message):
    with pytest.raises(BagDataError, match=message):
        Bags([[1.0], [2.0]], ["x", "x"], weight=weight)


def test_two_rows_of_one_bag_are_no_table_of_totals():
    with pytest.raises(BagDataError, match="one row per bag"):
        Bags.from_totals(pd.concat([TABLE, TABLE]), "precinct", ["men", "women"])


@pytest.mark.parametrize("wrong", [np.nan, -1, 2.5, "many"])
def test_number_of_people_that_is_none_is_refused_by_its_bag_and_group(wrong):
    table = pd.DataFrame({"precinct": ["007", "012"], "young": [5, 6], "old": [3, 4]}).astype({"old": object})
    table.loc[1, "old"] = wrong
    with pytest.raises(BagDataError, match=r"column 'old': bag '012' holds .*whole number of at least 0"):
        Bags.from_totals(table, "precinct", ["young", "old"])


def test_table_of_totals_without_rows_is_refused():
    with pytest.raises(BagDataError, match="has no rows"):
        Bags.from_totals(pd.DataFrame({"precinct": [], "young": [], "old": []}), "precinct", ["young", "old"])
