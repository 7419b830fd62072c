"""Tables that stay in Parquet files."""

import numpy as np
import pandas as pd
import pytest
from tests.sources.stored_tables import new_frame, same, write

from bagwise import Bags


@pytest.fixture
def frame():
    return new_frame()


@pytest.mark.parametrize("group", [1, 7, 1000])
def test_parquet_opened_equals_parquet_in_memory(frame, tmp_path, group):
    path = write(frame, tmp_path / "t.parquet", group)
    opened = Bags.open(path, "slide", label=["label", "name"], instance_label="inside")
    expected = Bags.from_frame(frame, "slide", label=["label", "name"], instance_label="inside")
    same(opened[0], expected[0])
    assert pd.DataFrame(opened[1]).equals(pd.DataFrame(expected[1]))
    np.testing.assert_array_equal(opened[2], expected[2])


def test_parquet_batches_inside_of_a_row_group_are_read_in_any_order(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.sources.parquet._BATCH_ENTRIES", 12)
    features = list("xyz")
    bags = Bags.open(write(frame, tmp_path / "t.parquet", 25), "slide", features=features)
    X = frame[features].to_numpy()
    for start, stop in [(0, 58), (20, 30), (13, 15), (3, 9), (9, 11), (50, 58), (24, 26)]:
        np.testing.assert_array_equal(np.asarray(bags.X[start:stop]), X[start:stop])


def test_folder_of_parquet_files_is_one_table_in_which_a_bag_may_go_on(frame, tmp_path):
    for number, (start, stop) in enumerate([(0, 8), (8, 40), (40, 58)]):
        write(frame.iloc[start:stop], tmp_path / f"{number}.parquet")
    bags, y = Bags.open(tmp_path, "slide", features=["x", "y"], label="label", known="inside")
    expected, their = Bags.from_frame(frame, "slide", features=["x", "y"], label="label")
    same(bags, expected)
    np.testing.assert_array_equal(y, their)
    np.testing.assert_array_equal(bags.known, frame["inside"])
