import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.io.scattered_table import new_frame

from bagwise import BagDataError, Bags
from bagwise.io import sorting
from bagwise.io.sorting import sort_table


@pytest.fixture
def frame():
    return new_frame()


@pytest.mark.parametrize("piece_bytes", [200, 2000, 10**9])
def test_sorted_table_has_its_bags_together_by_first_appearance_and_rows_in_order(frame, tmp_path, piece_bytes):
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "in.parquet", row_group_size=50)
    assert sort_table(tmp_path / "in.parquet", "slide", tmp_path / "out.parquet", piece_bytes) == 6
    codes = pd.factorize(frame["slide"])[0]
    expected = frame.iloc[np.argsort(codes, kind="stable")].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), expected)
    opened = Bags.open(tmp_path / "out.parquet", "slide")
    np.testing.assert_array_equal(np.asarray(opened.X), Bags.from_frame(frame, "slide").X)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_sorting_refuses_a_missing_key_and_a_missing_column(frame, tmp_path):
    frame.loc[200, "slide"] = None
    frame.to_parquet(tmp_path / "in.parquet")
    with pytest.raises(BagDataError, match="empty in row 200"):
        sort_table(tmp_path / "in.parquet", "slide", tmp_path / "out.parquet")
    with pytest.raises(BagDataError, match="no column 'bag'; the table has 'slide', 'x', 'n'"):
        sort_table(tmp_path / "in.parquet", "bag", tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def stopped(frame, tmp_path, monkeypatch, after):
    """A sort that ends when so many runs are written; returns how many the next one writes."""
    written, write = [], sorting._write_run

    def write_or_stop(*arguments):
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(write(*arguments))

    paths = tmp_path / "in.parquet", "slide", tmp_path / "out.parquet", 1000
    with monkeypatch.context() as patched:
        patched.setattr(sorting, "_write_run", write_or_stop)
        if after is None:
            patched.setattr(sorting, "_collect", lambda *_: 1 / 0)
        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            sort_table(*paths)
    assert not (tmp_path / "out.parquet").exists()
    return paths, len(written)


@pytest.mark.parametrize("after", [0, 3, None])
def test_sort_that_was_stopped_goes_on_with_the_runs_that_it_has(frame, tmp_path, monkeypatch, after):
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "in.parquet", row_group_size=70)
    paths, n_written = stopped(frame, tmp_path, monkeypatch, after)
    more, write = [], sorting._write_run
    monkeypatch.setattr(sorting, "_write_run", lambda *them: more.append(write(*them)))
    assert sort_table(*paths) == 6
    assert n_written + len(more) == 8  # 300 rows of 24 bytes, a thousand bytes at a time
    expected = frame.iloc[np.argsort(pd.factorize(frame["slide"])[0], kind="stable")].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_parquet(paths[2]), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_runs_of_another_table_are_not_used(frame, tmp_path, monkeypatch):
    frame.to_parquet(tmp_path / "in.parquet")
    paths, _ = stopped(frame, tmp_path, monkeypatch, 3)
    changed = frame.assign(n=-frame["n"], slide=frame["slide"].astype("category"))
    changed.to_parquet(tmp_path / "in.parquet")
    assert sort_table(*paths) == 6
    assert (pd.read_parquet(paths[2])["n"] <= 0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]
