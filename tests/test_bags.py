"""Bags: every way in, indexing by bag, labels by id, files."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bag_tables import KEYS, new_bags, new_frame, new_X

from bagwise import Bags
from bagwise.bags import as_bags
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


# ---------------------------------------------------------------- long tables


def test_ids_follow_first_appearance_and_rows_lead_back_to_the_table(bags, X):
    assert bags.ids == ("b", "a", "c")
    assert bags.offsets.tolist() == [0, 3, 5, 6]
    assert bags.sizes.tolist() == [3, 2, 1]
    assert bags.index.tolist() == [0, 0, 0, 1, 1, 2]
    assert bags.rows.tolist() == [0, 2, 5, 1, 4, 3]
    np.testing.assert_array_equal(bags.X, X[bags.rows])
    np.testing.assert_array_equal(bags.known, [0, np.nan, 1, 1, np.nan, 0])
    assert (len(bags), bags.shape, bags.n_instances, bags.n_features) == (3, (3, 2), 6, 2)
    assert bags.feature_names == ("u", "v")
    assert repr(bags) == "Bags(3 bags of 1–3, 6 instances, 2 features)"


@given(st.lists(st.sampled_from("pqrst"), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_grouping_equals_a_plain_loop(keys):
    X = np.arange(float(len(keys)))[:, None]
    bags = Bags(X, keys)
    expected = {}
    for key, row in zip(keys, X, strict=True):
        expected.setdefault(key, []).append(row)
    assert [name for name, _ in bags] == list(expected)
    for name, rows in bags:
        np.testing.assert_array_equal(rows, expected[name])


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        (["007", "7"], ("007", "7")),
        ([7, 8], ("7", "8")),
        (np.array([2.5, 1.0]), ("2.5", "1.0")),
        (pd.Series(["é", "日本"]), ("é", "日本")),
        (pd.Categorical(["x", "w"]), ("x", "w")),
        (torch.tensor([3, 1]), ("3", "1")),
        (pyarrow.array(["01", "1"]), ("01", "1")),
        ([("p", 1), ("p", 2)], ("('p', 1)", "('p', 2)")),
    ],
)
def test_group_keys_of_any_kind_become_text(keys, ids):
    assert Bags(np.zeros((2, 1)), keys).ids == ids


@pytest.mark.parametrize(
    "make",
    [
        np.asarray,
        np.asfortranarray,
        lambda X: X.astype(np.int64),
        lambda X: X.astype(">f8"),
        lambda X: X.tolist(),
        torch.tensor,
        lambda X: torch.tensor(X, requires_grad=True),
        lambda X: pd.DataFrame(X, columns=["u", "v"]),
        lambda X: pyarrow.table({"u": X[:, 0], "v": X[:, 1]}),
        lambda X: X.astype(object),
    ],
    ids=["numpy", "fortran", "int", "big-endian", "lists", "torch", "torch-grad", "pandas", "arrow", "object"],
)
def test_every_kind_of_table_gives_the_same_rows(make, X, bags):
    found = Bags(make(X), KEYS)
    np.testing.assert_array_equal(found.X, bags.X)
    assert found.X.dtype == np.float64


@pytest.mark.parametrize("kind", [np.float32, torch.float32])
def test_single_precision_is_kept(kind, X):
    single = torch.tensor(X, dtype=kind) if isinstance(kind, torch.dtype) else X.astype(kind)
    assert Bags(single, KEYS).X.dtype == np.float32


@pytest.mark.parametrize(
    "make", [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array, scipy.sparse.csc_matrix]
)
def test_sparse_stays_sparse(make, X, bags):
    found = Bags(make(X), KEYS)
    assert found.X.format == "csr"
    np.testing.assert_array_equal(found.X.toarray(), bags.X)
    np.testing.assert_array_equal(found[[2, 0]].X.toarray(), bags[[2, 0]].X)
    np.testing.assert_array_equal(found[1:].X.toarray(), bags[1:].X)
    assert [rows.shape for _, rows in found] == [(3, 2), (2, 2), (1, 2)]


def test_a_sparse_entry_stored_in_pieces_is_put_together():
    pieces = scipy.sparse.csr_matrix((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    found = Bags(pieces, ["a"]).X
    assert found.data.tolist() == [3.0, 5.0]
    assert pieces.data.tolist() == [1.0, 2.0, 5.0]


def test_column_names_come_from_the_frame_unless_given(X):
    frame = pd.DataFrame(X, columns=["u", "v"])
    assert Bags(frame, KEYS).feature_names == ("u", "v")
    assert Bags(frame, KEYS, feature_names=["p", "q"]).feature_names == ("p", "q")
    assert Bags(pd.DataFrame(X), KEYS).feature_names is None
    assert Bags(X, KEYS).feature_names is None


def test_missing_values_of_a_nullable_frame_are_nan():
    frame = pd.DataFrame({"u": pd.array([1, None], dtype="Int64"), "v": pd.array([True, False], dtype="boolean")})
    np.testing.assert_array_equal(Bags(frame, [0, 1]).X, [[1.0, 1.0], [np.nan, 0.0]])


# ---------------------------------------------------------------- nothing is changed behind anybody's back


def test_input_is_not_changed_and_bags_cannot_be_written_through(X):
    before, keys, known = X.copy(), np.array(KEYS), np.zeros(6)
    bags = Bags(X, keys, known=known)
    for array in (bags.X, bags.offsets, bags.rows, bags.known, bags[1:].X, bags[[0]].X):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises(AttributeError):
        bags.X = X
    np.testing.assert_array_equal(X, before)
    X[0], known[0] = -1.0, 1.0  # the user's own arrays stay writable
    assert keys.tolist() == KEYS


# ---------------------------------------------------------------- lists


def test_from_list_keeps_order_and_ids():
    bags = Bags.from_list([np.ones((2, 3)), np.zeros((1, 3))], ids=["z", "01"])
    assert bags.ids == ("z", "01")
    assert bags.sizes.tolist() == [2, 1]
    assert Bags.from_list([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]).sizes.tolist() == [1, 2]
    assert Bags.from_list(np.zeros((4, 2, 3))).shape == (4, 3)


def test_from_list_takes_frames_tensors_and_sparse_side_by_side(X):
    frames = [pd.DataFrame(X[:2], columns=["u", "v"]), pd.DataFrame(X[2:], columns=["u", "v"])]
    assert Bags.from_list(frames).feature_names == ("u", "v")
    mixed = Bags.from_list([X[:2], scipy.sparse.csr_array(X[2:5]), torch.tensor(X[5:])])
    np.testing.assert_array_equal(mixed.X.toarray(), X)


@pytest.mark.parametrize(
    ("arrays", "ids", "message"),
    [
        ([], None, "there are no bags"),
        ([np.ones((1, 2)), np.ones((0, 2))], ["p", "q"], "bag 'q' is empty"),
        ([np.ones((1, 2)), np.ones((2, 3))], None, "bag '1' has 3 features, bag '0' has 2"),
        ([np.ones((1, 2)), np.ones(2)], None, "bag '1': Expected 2D array"),
        ([np.ones((1, 2)), [[1.0], [1.0, 2.0]]], None, "bag '1': .* differ in length"),
        ([np.ones((1, 2))], ["p", "q"], r"one id per bag \(1\), got 2"),
        ([np.ones((1, 2))] * 2, ["p", "p"], "both be called 'p'"),
        ([np.ones((1, 2))] * 2, ["p", None], "id of a bag is missing"),
        ([pd.DataFrame({"u": [1], "v": [2]}), pd.DataFrame({"v": [1], "u": [2]})], None, "bag '1' are not named as"),
    ],
)
def test_lists_that_are_no_bags_are_refused(arrays, ids, message):
    with pytest.raises(BagDataError, match=message):
        Bags.from_list(arrays, ids)


# ---------------------------------------------------------------- what estimators take


def test_bags_lists_and_plain_tables_are_taken_as_bags(bags, X):
    assert as_bags(bags) is bags
    assert as_bags([X[:2], X[2:]]).sizes.tolist() == [2, 4]
    assert as_bags((X[:2], X[2:])).sizes.tolist() == [2, 4]
    assert as_bags([X[:2].tolist(), X[2:].tolist()]).sizes.tolist() == [2, 4]
    assert as_bags([scipy.sparse.csr_array(X[:2]), X[2:]]).sizes.tolist() == [2, 4]
    for single in (X, X.tolist(), list(X), scipy.sparse.csr_matrix(X), pd.DataFrame(X), torch.tensor(X)):
        assert as_bags(single).sizes.tolist() == [1] * 6
    assert as_bags(pd.DataFrame(X, columns=["u", "v"])).feature_names == ("u", "v")
