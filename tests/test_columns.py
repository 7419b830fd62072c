"""What bags carry beside features: parts, groups, metadata; and frames of any kind at the boundary."""

import numpy as np
import pytest
from tests.tables_with_parts import NAMED, new_bags, new_table, same

from bagwise import BagDataError, Bags


@pytest.fixture
def table():
    return new_table()


@pytest.fixture
def bags(table):
    return new_bags(table)


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
