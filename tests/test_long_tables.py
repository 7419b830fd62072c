"""Bags from the columns of a long table."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from tests.bag_tables import new_bags, new_frame, new_X

from bagwise import Bags
from bagwise.exceptions import BagDataError


@pytest.fixture
def X():
    return new_X()


@pytest.fixture
def bags(X):
    return new_bags(X)


@pytest.fixture
def frame():
    return new_frame()


def test_from_frame_gives_back_what_is_named(frame):
    assert Bags.from_frame(frame[["slide", "area"]], "slide").ids == ("007", "8", "ü")
    bags, y = Bags.from_frame(frame, bag="slide", label="cancer", ignore="cell")
    assert bags.feature_names == ("area", "count")
    np.testing.assert_array_equal(y, [1.0, 0.0, np.nan])
    bags, y, cells = Bags.from_frame(frame, bag="slide", label="cancer", instance_label="cell", features=["area"])
    assert bags.feature_names == ("area",)
    assert cells.tolist() == [0, 1, 0, 0, 1]  # in the order of bags.X
    assert bags.known is None
    bags, y, cells = Bags.from_frame(frame, bag="slide", instance_label="cell", ignore=["cancer"])
    assert y is None


def test_several_labels_become_columns(frame):
    frame["other"] = [0, 1, 0, 1, 1]
    _, y = Bags.from_frame(frame, bag="slide", label=["cancer", "other"], features="area")
    np.testing.assert_array_equal(y, [[1, 0], [0, 1], [np.nan, 1]])
    _, single = Bags.from_frame(frame, bag="slide", label=["other"], features="area")
    assert single.shape == (3, 1)


def test_arrow_tables_are_frames_too(frame):
    bags, y = Bags.from_frame(pyarrow.Table.from_pandas(frame), bag="slide", label="cancer", ignore=["cell"])
    assert bags.ids == ("007", "8", "ü")
    np.testing.assert_array_equal(y, [1.0, 0.0, np.nan])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_labels_of_text_may_be_missing_for_a_whole_bag(missing):
    frame = pd.DataFrame({"bag": ["p", "q", "p"], "x": [1.0, 2.0, 3.0]})
    frame["label"] = pd.Series(["yes", missing, "yes"], dtype=object)
    y = Bags.from_frame(frame, "bag", label="label")[1]
    assert y[0] == "yes"
    assert pd.isna(y[1])


@pytest.mark.parametrize(
    ("values", "seen"), [([1.0, 0.0, 0.0, 0.0, 0.0], r"1.0, 0.0"), ([1.0, 0.0, np.nan, 0.0, 0.0], r"1.0, nan")]
)
def test_a_label_that_varies_inside_a_bag_names_the_bag(frame, values, seen):
    frame["cancer"] = values
    with pytest.raises(BagDataError, match=rf"'cancer': the label of bag '007' varies .*{seen}"):
        Bags.from_frame(frame, "slide", label="cancer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bag": "slides"}, "no column 'slides'; the table has 'slide', 'area'"),
        ({"bag": "slide", "label": "tumour"}, "no column 'tumour'"),
        ({"bag": "slide", "ignore": ["nothing"]}, "no column 'nothing'"),
        ({"bag": "slide", "label": "cancer", "features": ["area", "cancer"]}, "column 'cancer' is among the features"),
        ({"bag": "slide", "features": []}, r"0 feature\(s\)"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(frame, arguments, message):
    with pytest.raises(BagDataError, match=message):
        Bags.from_frame(frame, **arguments)


def test_from_frame_refuses_what_is_no_frame_or_has_a_column_twice(frame):
    with pytest.raises(BagDataError, match="expected a pandas frame or an Arrow table, got dict"):
        Bags.from_frame({"slide": [1]}, "slide")
    with pytest.raises(BagDataError, match="more than one column 'area'"):
        Bags.from_frame(pd.concat([frame, frame[["area"]]], axis=1), "slide")
