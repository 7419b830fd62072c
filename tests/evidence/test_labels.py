"""Labels in any form a person holds them, as numbers and class names."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from bagwise import BagDataError, BagDataWarning, Bags
from bagwise.evidence.labels import read_labels

NAN = np.nan


@pytest.fixture
def bags():
    return Bags(np.zeros((4, 1)), ["p", "q", "r", "s"])


def read(y, bags, *, keyed=True, **options):
    return read_labels(y, bags, keyed=keyed, **options)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, 1, 1, 0], [0, 1]),
        (np.array([-1, 1, 1, -1], dtype=np.int8), [-1, 1]),
        (np.array([False, True, True, False]), [False, True]),
        (["no", "yes", "yes", "no"], ["no", "yes"]),
        ([3.0, 8.0, 8.0, 3.0], [3.0, 8.0]),
        (torch.tensor([0, 1, 1, 0]), [0, 1]),
        ({"s": 0, "r": 1, "q": 1, "p": 0}, [0, 1]),
        (pd.Series([1, 1, 0, 0], index=["q", "r", "p", "s"]), [0, 1]),
        (pd.Series(["b", "a", "b", "a"], index=["q", "p", "r", "s"], dtype="category"), ["a", "b"]),
        (pd.Series([0, 1, 1, 0], index=["p", "q", "r", "s"], dtype="Int64"), [0, 1]),
        ([np.int64(0), 1, np.int64(1), 0], [0, 1]),
        (np.array([0, 1.0, np.int64(1), 0], dtype=object), [0, 1]),
    ],
)
def test_any_two_class_values(bags, y, classes):
    labels = read(y, bags)
    assert labels.values.ravel().tolist() == [0, 1, 1, 0]
    assert labels.classes.tolist() == classes
    assert not labels.several


@pytest.mark.parametrize(
    "y",
    [
        [0, NAN, 1, 0],
        np.array([0, None, 1, 0], dtype=object),
        np.array(["a", None, "b", "a"], dtype=object),
        pd.Series([False, None, True, False], index=["p", "q", "r", "s"], dtype="boolean"),
        pd.Series(["x", None, "y", "x"], index=["p", "q", "r", "s"]),
        {"p": 0, "q": NAN, "r": 1, "s": 0},
        {"p": "n", "q": pd.NA, "r": "y", "s": "n"},
    ],
)
def test_missing_labels_of_any_kind_are_nan(bags, y):
    np.testing.assert_array_equal(read(y, bags).values.ravel(), [0, NAN, 1, 0])


def test_several_columns_keep_names_and_follow_ids(bags):
    y = [[0, 1, NAN], [1, 0, 1], [0, 0, 0], [1, 1, 0]]
    labels = read(y, bags)
    np.testing.assert_array_equal(labels.values, y)
    assert (labels.names, labels.classes.tolist()) == (("label_0", "label_1", "label_2"), [0, 1])
    table = pd.DataFrame(y, index=["p", "q", "r", "s"], columns=["cat", "dog", "owl"])[::-1]
    labels = read(table, bags)
    np.testing.assert_array_equal(labels.values, y)
    assert labels.names == ("cat", "dog", "owl")
    with_none = np.array([[0, True], [1, None], [0, 0], [1, 1]], dtype=object)
    np.testing.assert_array_equal(read(with_none, bags).values, [[0, 1], [1, NAN], [0, 0], [1, 1]])


def test_a_column_vector_is_one_label_with_scikit_learns_warning(bags):
    with pytest.warns(UserWarning, match="column-vector y was passed"):
        labels = read(np.array([[0], [1], [1], [0]]), bags)
    assert not labels.several


def test_a_series_is_read_by_position_where_the_ids_are_not_the_users(bags):
    y = pd.Series([0, 1, 1, 0], index=[10, 11, 12, 13])
    assert read(y, bags, keyed=False).values.ravel().tolist() == [0, 1, 1, 0]
    with pytest.raises(BagDataError, match="no entry for bag 'p'"):
        read(y, bags)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "the target y is None"),
        ([0, 1, 1], "y has 3 entries, but there are 4 bags"),
        (np.zeros((5, 2)), "y has 5 entries, but there are 4 bags"),
        (1, r"got shape \(\)"),
        (np.zeros((4, 2, 2)), r"got shape \(4, 2, 2\)"),
        (np.zeros((4, 0)), r"got shape \(4, 0\)"),
        ([[0], [1, 0], [1], [0]], "expected one label per bag"),
        ([0, 1, 2, 2], r"3 classes '0', '1', '2' in one column.*\(B, K\) array of 0/1.*MIPLGP"),
        (["a", "b", "c", "a"], "Only binary classification is supported.*MIPLGP"),
        ([0, 1, np.inf, 0], "contains infinity"),
        ([0.2, 0.4, 1.0, 0.0], "Unknown label type: continuous"),
        (np.array([0, "a", 1, 0], dtype=object), "numbers or text, not both.*'0', 'a', '1'"),
        ([{"a"}, {"a", "b"}, {"b"}, {"a"}], "Expected two class values"),
        (["a", "a", "a", "a"], "single class .*'a'.* code the labels as 0"),
        ([7, 7, 7, 7], "single class .*7"),
        ([[0, 2], [1, 1], [0, 0], [1, 0]], "bag 'p', column 1 holds .*2.*MIPLGP"),
        ([["a", "b"]] * 4, "0, 1 or NaN .*found text"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(bags, y, message):
    with pytest.raises(BagDataError, match=message):
        read(y, bags)


@pytest.mark.parametrize(
    ("y", "classes", "value"),
    [
        ([1, 1, 1, 1], [0, 1], 1),
        ([0.0] * 4, [0, 1], 0),
        ([-1, NAN, -1, -1], [-1, 1], 0),
        ([True] * 4, [False, True], 1),
    ],
)
def test_one_class_only_is_read_with_a_warning(bags, y, classes, value):
    with pytest.warns(BagDataWarning, match="only one class"):
        labels = read(y, bags)
    assert labels.classes.tolist() == classes
    assert np.nanmax(labels.values) == np.nanmin(labels.values) == value


def test_no_label_at_all(bags):
    with pytest.warns(BagDataWarning, match="every bag label is missing"):
        labels = read([NAN] * 4, bags)
    assert np.isnan(labels.values).all()
    assert labels.classes.tolist() == [0, 1]
    with pytest.warns(BagDataWarning, match="every bag label is missing"):
        read([None] * 4, bags)
    with pytest.raises(BagDataError, match="no label to learn from"):
        read([NAN] * 4, bags, may_be_empty=False)


def test_the_warning_names_the_column(bags):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(pd.DataFrame({"cat": [0, 1, 0, 1], "dog": [0] * 4, "owl": [NAN] * 4}, index=list("pqrs")), bags)
    assert [str(w.message)[:50] for w in caught] == [
        "only one class, 0, is among the bag labels of 'dog'"[:50],
        "every bag label of 'owl' is missing: the model can"[:50],
    ]
