"""Files in, the same bags out; anything else is refused in one clear sentence."""

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from bagwise import Bags
from bagwise.exceptions import BagDataError
from bagwise.io import read_table, write_table
from bagwise.io.tables import SUFFIXES


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_survives_the_round_trip_with_its_bag_keys(tmp_path, frame, suffix):
    path = tmp_path / f"cells{suffix}"
    write_table(frame, path)
    back = read_table(path, bag="slide")
    assert list(back["slide"]) == ["007", "NA", "007", "7"]
    pd.testing.assert_frame_equal(back.drop(columns="slide"), frame.drop(columns="slide"), check_exact=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_bags_come_out_of_every_kind_of_file(tmp_path, frame, suffix):
    path = tmp_path / f"cells{suffix}"
    write_table(frame, path)
    bags, y = Bags.from_frame(read_table(path, "slide"), bag="slide", label="cancer")
    assert bags.ids == ("007", "NA", "7")
    assert bags.feature_names == ("area", "count")
    np.testing.assert_array_equal(bags.X, frame[["area", "count"]].to_numpy()[[0, 2, 1, 3]])
    np.testing.assert_array_equal(y, [1.0, np.nan, 0.0])


def test_numeric_keys_of_a_typed_file_become_text(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"bag": [10, 2], "x": [0.0, 1.0]}).to_parquet(path)
    assert list(read_table(path, "bag")["bag"]) == ["10", "2"]


def test_a_named_index_is_a_column(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"bag": ["b", "a"], "x": [0.0, 1.0]}).set_index("bag").to_parquet(path)
    assert list(read_table(path, "bag")["bag"]) == ["b", "a"]


def test_an_arrow_stream_is_read_too(tmp_path, frame):
    path = tmp_path / "x.arrow"
    table = pyarrow.Table.from_pandas(frame)
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert list(read_table(path, "slide")["slide"]) == list(frame["slide"])


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("bag,x\n01,1\n", encoding="utf-8-sig")
    assert list(read_table(path, "bag")["bag"]) == ["01"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_empty_key_is_named_by_its_row(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    write_table(pd.DataFrame({"bag": ["a", None, "b"], "x": [1, 2, 3]}), path)
    with pytest.raises(BagDataError, match=r"'bag' is empty in row 1"):
        read_table(path, "bag")


def test_a_missing_bag_column_lists_what_there_is(tmp_path, frame):
    write_table(frame, tmp_path / "x.csv")
    with pytest.raises(BagDataError, match=r"no column 'patient'; the table has 'slide', 'area'"):
        read_table(tmp_path / "x.csv", "patient")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b""),
        ("x.csv", b"\xff\xfe\x00\x81PNG"),
        ("x.csv", b"a,b\n1,2,3\n"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n"),
        ("x.csv.gz", b"a,b\n1,2\n"),
        ("x.parquet", b"PAR1 and then nothing"),
        ("x.parquet", b""),
        ("x.arrow", b"ARROW1 and then nothing"),
        ("x.feather", b""),
    ],
)
def test_a_damaged_or_foreign_file_is_one_clear_error(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BagDataError, match=r"cannot be read as a \.") as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_truncated_gzip_file_is_refused(tmp_path, frame):
    path = tmp_path / "x.csv.gz"
    write_table(pd.concat([frame] * 500), path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BagDataError, match="is it complete"):
        read_table(path)


def test_repeated_columns_and_other_separators_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,a\n1,2,3\n")
    with pytest.raises(BagDataError, match="'a' occurs twice"):
        read_table(path)
    path.write_text("a;b\n1;2\n")
    with pytest.raises(BagDataError, match="no commas"):
        read_table(path)


def test_unknown_kinds_and_absent_files(tmp_path):
    with pytest.raises(BagDataError, match=r"must end in \.csv"):
        read_table(tmp_path / "x.xlsx")
    with pytest.raises(BagDataError, match=r"must end in \.csv"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "x.txt")
    for suffix in SUFFIXES:
        with pytest.raises(FileNotFoundError):
            read_table(tmp_path / f"absent{suffix}")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(pd.DataFrame({"a": [1]}), path)
    before = path.read_bytes()
    with pytest.raises(pyarrow.ArrowException):
        write_table(pd.DataFrame({"a": [1, "x", object()]}), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_arrow_text_that_points_outside_of_its_file_is_refused(tmp_path):
    table = pyarrow.table({"bag": ["x" * 777, "y" * 100], "x": [1.0, 2.0]})
    with pyarrow.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    ends, beyond = (np.array([777, end], dtype=np.int32).tobytes() for end in (877, 10**6))
    whole = (tmp_path / "x.arrow").read_bytes()
    assert whole.count(ends) == 1
    (tmp_path / "x.arrow").write_bytes(whole.replace(ends, beyond))
    with pytest.raises(BagDataError, match=r"x.arrow: cannot be read as a .arrow table"):
        read_table(tmp_path / "x.arrow", "bag")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_column_that_a_typed_table_has_twice_is_refused(tmp_path, suffix):
    table = pyarrow.table([["a"], ["b"], [1.0]], names=["bag", "bag", "x"])
    write = pyarrow.parquet.write_table if suffix == ".parquet" else pyarrow.feather.write_feather
    write(table, tmp_path / f"x{suffix}")
    with pytest.raises(BagDataError, match="column 'bag' occurs twice"):
        read_table(tmp_path / f"x{suffix}", "bag")
