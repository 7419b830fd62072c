"""What bags carry beside features: parts, groups, metadata; and frames of any kind at the boundary."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bagwise import BagDataError, Bags
from bagwise._frames import as_kind


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "patient": ["b", "a", "b", "a", "b"],
            "slide": ["b2", "a1", "b1", "a1", "b2"],
            "x": [1.0, 2.0, 3.0, 4.0, 5.0],
            "y": [0.1, 0.2, 0.3, 0.4, 0.5],
            "file": ["f1", "f2", "f3", None, "f5"],
            "tumour": [1, 0, 1, 0, 1],
            "hospital": ["H1", "H2", "H1", "H2", "H1"],
        }
    )


NAMED = {
    "bag": "patient",
    "part": "slide",
    "group": "hospital",
    "meta": ["file", "x"],
    "features": ["x", "y"],
    "label": "tumour",
}


@pytest.fixture
def bags(table):
    return Bags.from_frame(table, **NAMED)[0]


def same(one: Bags, other: Bags) -> None:
    np.testing.assert_array_equal(one.X, other.X)
    assert (one.ids, one.group) == (other.ids, other.group)
    assert one.part.tolist() == other.part.tolist()
    pd.testing.assert_frame_equal(one.meta, other.meta)


def test_rows_of_a_part_stand_together_and_keep_their_metadata(bags, table):
    assert bags.part.tolist() == ["b2", "b2", "b1", "a1", "a1"]
    assert bags.rows.tolist() == [0, 4, 2, 1, 3]
    assert bags.meta["file"].tolist() == ["f1", "f5", "f3", "f2", ""]
    assert bags.meta["x"].tolist() == bags.X[:, 0].tolist() == table["x"].iloc[bags.rows].tolist()
    assert bags.group == ("H1", "H2")


def test_by_part_gives_parts_as_bags_in_the_same_rows(bags):
    parts = bags.by_part()
    assert parts.ids == ("b2", "b1", "a1")
    assert parts.group == ("b", "b", "a")
    assert parts.sizes.tolist() == [2, 1, 2]
    np.testing.assert_array_equal(parts.X, bags.X)


@pytest.mark.parametrize("key", [[1, 0, 1], slice(1, 2), [False, True], "a"])
def test_indexing_carries_parts_groups_and_metadata(bags, key):
    some = bags[key]
    picked = [int(bags.ids.index(name)) for name in some.ids]
    rows = np.concatenate([np.arange(bags.offsets[b], bags.offsets[b + 1]) for b in picked])
    assert some.part.tolist() == bags.part[rows].tolist()
    assert some.meta["file"].tolist() == bags.meta["file"].iloc[rows].tolist()
    assert some.group == tuple(bags.group[b] for b in picked)


def test_files_keep_parts_groups_and_metadata(bags, tmp_path):
    bags.save(tmp_path / "bags.npz")
    same(Bags.load(tmp_path / "bags.npz"), bags)
    bags[[1, 1]].save(tmp_path / "twice.npz")
    same(Bags.load(tmp_path / "twice.npz"), bags[[1, 1]])


def test_a_file_whose_parts_are_scattered_is_refused(bags, tmp_path):
    bags.save(tmp_path / "bags.npz")
    with np.load(tmp_path / "bags.npz") as stored:
        arrays = dict(stored)
    arrays["part_codes"] = arrays["part_codes"][[0, 2, 1, 3, 4]]
    np.savez(tmp_path / "scattered.npz", **arrays)
    with pytest.raises(BagDataError, match="rows of a part do not stand together"):
        Bags.load(tmp_path / "scattered.npz")


def test_concat_is_the_inverse_of_slicing(bags):
    same(Bags.concat([bags[:1], bags[1:]]), bags)
    known = Bags.concat([bags[:1].with_known([0, 1, np.nan]), bags[1:]]).known
    np.testing.assert_array_equal(known, [0, 1, np.nan, np.nan, np.nan])


def test_concat_refuses_what_does_not_fit(bags):
    with pytest.raises(BagDataError, match="both be called 'b'"):
        Bags.concat([bags[:1], bags[:1]])
    with pytest.raises(BagDataError, match="every part needs the same columns"):
        Bags.concat([bags[:1], bags[1:].with_meta(None)])
    with pytest.raises(BagDataError, match="some of these bags have parts"):
        Bags.concat([bags[:1], Bags(bags.X[:1], ["c"], feature_names=["x", "y"])])


def test_a_part_in_two_bags_is_refused():
    with pytest.raises(BagDataError, match="part 's1' lies in two bags, 'a' and 'b'"):
        Bags(np.zeros((2, 1)), ["a", "b"], part=["s1", "s1"])


def test_a_missing_part_is_refused_with_its_row():
    with pytest.raises(BagDataError, match="key of row 1 is missing"):
        Bags(np.zeros((2, 1)), ["a", "b"], part=["s1", None])


def test_a_group_that_varies_inside_a_bag_is_refused(table):
    table.loc[0, "hospital"] = "H9"
    with pytest.raises(BagDataError, match="column 'hospital': the label of bag 'b' varies"):
        Bags.from_frame(table, **NAMED)


def test_metadata_of_another_length_is_refused(bags):
    with pytest.raises(BagDataError, match=r"column 'file' needs one entry per instance, shape \(5,\)"):
        bags.with_meta({"file": ["a"]})


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
