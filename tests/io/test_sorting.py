import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.io.scattered_table import new_frame

from bagwise import BagDataError, Bags
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
