"""Tables that stay in Parquet files."""

import numpy as np
import pandas as pd
import pytest
from pyarrow.parquet import ParquetFile
from tests.sources.stored_tables import new_frame, same, write

from bagwise import Bags
from bagwise.sources.parquet import ParquetRows


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


# ---------------------------------------------------------------- batches decoded ahead


@pytest.fixture
def rows(frame, tmp_path, monkeypatch):
    """58 rows in two files with row groups of 10, in batches of 4 at most, turned 3 at a time."""
    monkeypatch.setattr("bagwise.sources.parquet._BATCH_ENTRIES", 12)
    monkeypatch.setattr("bagwise.sources.parquet._TILE_ENTRIES", 9)
    paths = [write(frame[:25], tmp_path / "0.parquet", 10), write(frame[25:], tmp_path / "1.parquet", 10)]
    return ParquetRows(paths, list("xyz"), ParquetFile(paths[0]).schema_arrow)


@pytest.fixture
def decoded(monkeypatch):
    """Where the batches begin that are decoded, in their order."""
    starts, original = [], ParquetRows._decoded

    def counted(self, first):
        for batch in original(self, first):
            starts.append(batch.start)
            yield batch

    monkeypatch.setattr(ParquetRows, "_decoded", counted)
    return starts


def test_rows_read_in_order_are_decoded_once_across_row_groups_and_files(rows, decoded, frame):
    X = frame[list("xyz")].to_numpy()
    for start in range(0, 58, 5):
        np.testing.assert_array_equal(rows.read(start, min(start + 5, 58)), X[start : start + 5])
    assert decoded == [0, 4, 8, 10, 14, 18, 20, 24, 25, 29, 33, 35, 39, 43, 45, 49, 53, 55]


def test_nothing_is_decoded_ahead_of_a_single_batch(rows, decoded):
    for row in (26, 12, 55, 1):
        rows.read(row, row + 1)
    assert decoded == [25, 10, 55, 0]


def test_the_batch_after_the_next_is_decoded_meanwhile(rows, decoded):
    rows.read(0, 5)
    rows._cursor = None  # waits for who decodes
    assert decoded == [0, 4, 8]


def test_rows_can_be_read_again_after_an_error(rows, frame, monkeypatch):
    rows.read(0, 5)
    with monkeypatch.context() as patch:
        patch.setattr(ParquetRows, "_numbers", lambda self, batch: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rows.read(5, 20)
    np.testing.assert_array_equal(rows.read(5, 58), frame[list("xyz")].to_numpy()[5:])
