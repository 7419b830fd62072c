"""Frames of any kind in, and the same kind out."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from tests.tables_with_parts import NAMED, new_bags, new_table, same

from bagwise import Bags
from bagwise._frames import as_kind


@pytest.fixture
def table():
    return new_table()


@pytest.fixture
def bags(table):
    return new_bags(table)


FRAMES = {
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "duckdb": lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame)),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_any_kind_give_the_bags_that_pandas_gives(kind, bags, table):
    found, y = Bags.from_frame(FRAMES[kind](table), **NAMED)
    same(found, bags)
    assert y.tolist() == [1, 0]
    assert found.frame_kind == kind.split()[-1]
    assert found[0].frame_kind == found.frame_kind


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "duckdb"])
def test_results_come_back_in_the_kind_that_came_in(kind, table):
    given = {"pandas": lambda frame: frame, **FRAMES}[kind](table)
    back = as_kind(table, kind)
    assert type(back) is type(given)
    again = back if kind == "pandas" else (back.pl() if kind == "duckdb" else back).to_pandas()
    assert again["slide"].tolist() == table["slide"].tolist()
