"""Bags whose rows stay where they are keep parts, groups and metadata."""

import numpy as np
import pandas as pd
import pytest
from tests.sources.stored_tables import new_frame, same, write

from bagwise import Bags, two_levels


@pytest.fixture
def frame():
    return new_frame()


def test_parts_groups_and_metadata_of_an_opened_table_are_those_of_the_table_in_memory(frame, tmp_path):
    frame = frame.assign(part=[f"{bag}-{row // 4}" for row, bag in enumerate(frame["slide"])])
    named = {"label": "label", "instance_label": "inside", "part": "part", "group": "name", "meta": ["y", "z"]}
    opened, y, inside = Bags.open(write(frame, tmp_path / "t.parquet"), "slide", **named)
    expected, their, whole = Bags.from_frame(frame, "slide", **named)
    assert opened.stays_in_file
    for mine, theirs in ((opened, expected), (opened[[4, 1]], expected[[4, 1]]), (opened[1:3], expected[1:3])):
        same(mine, theirs)
        assert mine.group == theirs.group
        np.testing.assert_array_equal(mine.part, theirs.part)
        pd.testing.assert_frame_equal(mine.meta, theirs.meta)
        same(mine.by_part(), theirs.by_part())
    np.testing.assert_array_equal(y, their)
    np.testing.assert_array_equal(inside, whole)


def test_labels_at_two_levels_of_an_opened_table_leave_its_rows_in_the_file(frame, tmp_path):
    """A labelled part in the middle of a bag leaves two stretches of the file as one bag."""
    frame = frame.assign(part=[f"{bag}-{row // 4}" for row, bag in enumerate(frame["slide"])])
    named = {"label": "label", "part": "part", "features": list("xyz")}
    opened, y = Bags.open(write(frame, tmp_path / "t.parquet"), "slide", **named)
    parts = dict.fromkeys(opened.by_part().ids, np.nan) | {"d-6": 0.0}
    mine = two_levels(opened, y, parts).bags
    theirs = two_levels(*Bags.from_frame(frame, "slide", **named), parts).bags
    assert mine.stays_in_file
    same(mine, theirs)
    chosen = [theirs.ids.index("f"), theirs.ids.index("d (other parts)"), 0]
    same(mine[chosen], theirs[chosen])
    same(mine.by_part()[::2], theirs.by_part()[::2])


def test_an_instance_of_an_opened_table_without_metadata_is_known_by_its_row(frame, tmp_path):
    bags = Bags.open(write(frame, tmp_path / "t.parquet"), "slide", features=list("xyz"))
    assert bags["d"].describe(3) == "row 18"
