"""Bags and what is known of them, from a table or an archive."""

import numpy as np
import pytest
from tests.io.files import save

from bagwise.exceptions import BagDataError
from bagwise.io import write_table
from bagwise.io.bag_data import read_bags


def test_known_instances_of_a_table_follow_their_rows(tmp_path, frame):
    write_table(frame.assign(seen=[1.0, np.nan, 0.0, np.nan]), tmp_path / "x.csv")
    found = read_bags(tmp_path / "x.csv", bag="slide", labels=["cancer"], known="seen")
    np.testing.assert_array_equal(found.bags.known, [1, 0, np.nan, np.nan])
    assert found.bags.feature_names == ("area", "count")
    unnamed = read_bags(tmp_path / "x.csv", bag="slide", ignore=["seen", "cancer"])
    assert unnamed.bags.known is None
    absent = read_bags(tmp_path / "x.csv", bag="slide", known="other", ignore=["seen"], labels_may_be_absent=True)
    assert absent.bags.known is None


def test_instance_labels_of_a_table_follow_their_rows(tmp_path, frame):
    write_table(frame.assign(truth=[1, 2, 3, 4]), tmp_path / "x.csv")
    found = read_bags(tmp_path / "x.csv", bag="slide", labels=["cancer"], instance_labels=["truth"])
    np.testing.assert_array_equal(found.instance_y, found.bags.rows + 1)
    assert found.bags.rows.tolist() != [0, 1, 2, 3]


def test_known_instances_of_an_archive_follow_their_rows(tmp_path):
    path = save(tmp_path / "x.npz", X=np.ones((4, 1)), bag=[1, 0, 1, 0], y=[0, 1], seen=[1, 0, -1, -1])
    found = read_bags(path, known="seen")
    np.testing.assert_array_equal(found.bags.known, [1, np.nan, 0, np.nan])
    assert read_bags(path).bags.known is None


@pytest.mark.parametrize(("seen", "message"), [([0, 1, 0, 2], "row 3 holds"), (list("abcd"), "expected 0, 1 or NaN")])
def test_known_instances_are_zero_or_one(tmp_path, frame, seen, message):
    write_table(frame.assign(seen=seen).iloc[[3, 0, 1, 2]][::-1], tmp_path / "x.csv")
    with pytest.raises(BagDataError, match=rf"x.csv: column 'seen': known: {message}"):
        read_bags(tmp_path / "x.csv", bag="slide", known="seen")
