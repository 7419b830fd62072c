"""Classes of bags in every form that they come in, known instances beside them, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from bagwise import Bags, Evidence, count, label
from bagwise.evidence.classes import given_classes, read_classes
from bagwise.exceptions import BagDataError

BAGS = Bags(np.arange(12.0).reshape(6, 2), ["a", "a", "b", "b", "c", "c"])
TABLE = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])


def read(y, bags=BAGS):
    return read_classes(y, bags, keyed=True)


@pytest.mark.parametrize(
    "y",
    [
        TABLE,
        [{0, 1}, {1}, {2}],
        {"c": {2}, "a": {0, 1}, "b": {1}},
        Evidence.candidates([{0, 1}, {1}, {2}]),
        {"c": Evidence.candidates([{2}]), "a": Evidence.candidates([{0, 1}]), "b": Evidence.candidates([1])},
        pd.DataFrame(TABLE, index=["a", "b", "c"], columns=["0", "1", "2"]),
    ],
    ids=["table", "sets", "dict", "evidence", "pieces", "frame"],
)
def test_every_form_of_candidates_gives_the_same_table(y):
    found = read(y)
    np.testing.assert_array_equal(found.evidence.table[:, :3], TABLE == 1)
    assert not found.none
    assert [str(name) for name in found.classes] == ["0", "1", "2"]


def test_one_class_per_bag_is_a_set_of_one():
    found = read(["wren", "robin", "wren"])
    assert found.classes.tolist() == ["robin", "wren"]
    assert found.evidence.table.tolist() == [[False, True, False], [True, False, False], [False, True, False]]


def test_labels_beside_candidates_mean_no_class_and_any_class():
    y = Evidence.concat([Evidence.candidates([{"x", "y"}]), label([0.0]), label([1.0])])
    found = read(y)
    assert found.none
    assert found.evidence.table.tolist() == [[True, True, False], [False, False, True], [True, True, False]]


def test_none_of_them_in_a_set_is_a_class_of_bags():
    found = read([{"x", "none of them"}, {"y"}, None])
    assert found.none
    assert found.classes.tolist() == ["x", "y"]
    assert found.evidence.table.tolist() == [[True, False, True], [False, True, False], [False] * 3]
    assert found.evidence.observed()[:, 0].tolist() == [True, True, False]


def test_statements_of_candidates_can_be_cut_and_joined():
    whole = Evidence.candidates([{1, 2}, None, 3])
    again = Evidence.concat([whole[:1], whole[[1]], whole[2]])
    assert again.sets.tolist() == [frozenset({1, 2}), None, frozenset({3})]
    assert len(Evidence.concat([label([1.0]), label([0.0])])) == 2


def test_known_instances_stand_apart_as_bags_of_one():
    """A known 0 has none of the classes, a known 1 that of its bag; the rest of that bag need not show it any more."""
    bags = BAGS.with_known([np.nan, np.nan, 1, np.nan, 0, np.nan])
    found = read_classes(TABLE, bags, keyed=True)
    assert len(found.bags) == 5
    assert found.bags.sizes.tolist() == [2, 1, 1, 1, 1]
    rows = {tuple(X[0]): row.tolist() for (_, X), row in zip(found.bags, found.evidence.table, strict=True)}
    assert rows[(0.0, 1.0)] == [True, True, False, False]
    assert rows[(4.0, 5.0)] == [False, True, False, False]  # the known one
    assert rows[(6.0, 7.0)] == [False, True, False, True]  # the rest of its bag
    assert rows[(8.0, 9.0)] == [False, False, False, True]
    assert rows[(10.0, 11.0)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([{"x"}, set(), {"y"}], "'b' has no candidate class"),
        (np.ones((3, 3)), "every class"),
        (np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]]), "never a candidate"),
        ([None, None, None], "no bag has a candidate"),
        (Evidence.concat([Evidence.candidates([{"x"}, {"y"}]), count([1], [1])]), "'c' states a fraction or a count"),
        (Evidence.candidates([{"x"}, {"y"}]), "2 statements, but there are 3 bags"),
    ],
    ids=["empty set", "everything", "never", "nothing", "count", "length"],
)
def test_candidates_from_which_nothing_follows_are_refused(y, message):
    with pytest.raises(BagDataError, match=message):
        read(y)


def test_an_empty_set_is_refused_where_it_is_made():
    with pytest.raises(BagDataError, match="entry 1 has no candidate class"):
        Evidence.candidates([{"x"}, set()])
    with pytest.raises(BagDataError, match="one set of classes per bag"):
        Evidence.candidates("wren")


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([1, np.nan, np.nan, np.nan, np.nan, np.nan], "2 classes are candidates"),
        ([np.nan, np.nan, 0, 0, np.nan, np.nan], "'b' has a class, but all of its 2 instances"),
    ],
)
def test_known_instances_that_contradict_their_bag_are_refused(known, message):
    with pytest.raises(BagDataError, match=message):
        read_classes(TABLE, BAGS.with_known(known), keyed=True)


def test_what_is_given_is_read_in_the_classes_of_the_model():
    classes = np.array(["x", "y"])
    found = given_classes([{"y"}, None, {"x", "none of them"}], BAGS, classes, keyed=True)
    assert found.filled(none=False).tolist() == [[False, True, False], [True, True, False], [True, False, True]]
    assert found.filled(none=True)[1].tolist() == [True] * 3
    assert given_classes(np.eye(3)[:, :2] + [[0, 0], [0, 0], [1, 0]], BAGS, classes, keyed=True).table.shape == (3, 3)
    with pytest.raises(BagDataError, match="fitted with the classes"):
        given_classes([{"z"}, None, None], BAGS, classes, keyed=True)
    with pytest.raises(BagDataError, match="'a' has no candidate class"):
        given_classes([set(), None, None], BAGS, classes, keyed=True)
