"""Bags: every way in, indexing by bag, labels by id, files."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise import Bags
from bagwise.bags import as_bags, ragged_ranges
from bagwise.exceptions import BagDataError

KEYS = ["b", "a", "b", "c", "a", "b"]


@pytest.fixture
def X():
    return np.arange(12.0).reshape(6, 2)


@pytest.fixture
def bags(X):
    return Bags(X, KEYS, feature_names=["u", "v"], known=[0, 1, np.nan, 0, np.nan, 1])


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "slide": ["007", "8", "007", "8", "ü"],
            "area": [1.0, 2.0, 3.0, 4.0, 5.0],
            "count": [1, 2, 3, 4, 5],
            "cancer": [1.0, 0.0, 1.0, 0.0, np.nan],
            "cell": [0, 0, 1, 0, 1],
        }
    )


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
def test_bad_lists(arrays, ids, message):
    with pytest.raises(BagDataError, match=message):
        Bags.from_list(arrays, ids)


# ---------------------------------------------------------------- frames


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
def test_bad_columns(frame, arguments, message):
    with pytest.raises(BagDataError, match=message):
        Bags.from_frame(frame, **arguments)


def test_from_frame_refuses_what_is_no_frame_or_has_a_column_twice(frame):
    with pytest.raises(BagDataError, match="expected a pandas frame or an Arrow table, got dict"):
        Bags.from_frame({"slide": [1]}, "slide")
    with pytest.raises(BagDataError, match="more than one column 'area'"):
        Bags.from_frame(pd.concat([frame, frame[["area"]]], axis=1), "slide")


# ---------------------------------------------------------------- indexing


@pytest.mark.parametrize(
    ("key", "ids"),
    [
        (0, "b"),
        (-1, "c"),
        (np.int64(1), "a"),
        (slice(1, None), "ac"),
        (slice(None), "bac"),
        (slice(None, None, 2), "bc"),
        (slice(None, None, -1), "cab"),
        ([2, 0], "cb"),
        ([-1, 1], "ca"),
        (np.array([1]), "a"),
        (np.array([True, False, True]), "bc"),
        ([False, True, True], "ac"),
        (pd.Series([True, False, False]), "b"),
        (torch.tensor([2, 1]), "ca"),
        (([0, 1], ...), "ba"),
        ((slice(1, 3), ...), "ac"),
        ([1, 1, 0], "aab"),
        ("c", "c"),
    ],
)
def test_indexing_is_by_bag(bags, key, ids):
    some = bags[key]
    assert isinstance(some, Bags)
    assert some.ids == tuple(ids)
    cuts = bags.offsets[1:-1]
    for found, everything in ((some.X, bags.X), (some.rows, bags.rows), (some.known, bags.known)):
        parts = dict(zip(bags.ids, np.split(everything, cuts), strict=True))
        np.testing.assert_array_equal(found, np.concatenate([parts[name] for name in ids]))
    assert some.sizes.tolist() == [{"b": 3, "a": 2, "c": 1}[name] for name in ids]
    assert some.offsets.tolist() == [0, *np.cumsum(some.sizes)]
    assert some.feature_names == ("u", "v")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_bootstrap_equals_a_plain_loop(numbers):
    arrays = [np.full((size, 1), size, dtype=float) for size in (3, 1, 2, 5, 4)]
    found = Bags.from_list(arrays)[numbers]
    np.testing.assert_array_equal(found.X, np.concatenate([arrays[number] for number in numbers]))


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        (3, IndexError, "there are 3 bags, numbered from 0; got 3"),
        ([0, -4], IndexError, "there are 3 bags"),
        (1.5, IndexError, "indexed by bag only"),
        ([0.0, 1.0], IndexError, "indexed by bag only"),
        (True, IndexError, "indexed by bag only"),
        (None, IndexError, "indexed by bag only"),
        ([[0, 1]], IndexError, "indexed by bag only"),
        ((0, 1), IndexError, "indexed by bag only"),
        ([True, False], IndexError, "the mask has 2 entries, but there are 3 bags"),
        ([], BagDataError, "keeps no bag"),
        (slice(3, 3), BagDataError, "keeps no bag"),
        (np.zeros(3, dtype=bool), BagDataError, "keeps no bag"),
        ("x", KeyError, "there is no bag 'x'"),
    ],
)
def test_bad_keys(bags, key, kind, message):
    with pytest.raises(kind, match=message):
        bags[key]


def test_neighbouring_bags_are_not_copied(bags):
    assert np.shares_memory(bags[1:3].X, bags.X)


def test_ragged_ranges():
    assert ragged_ranges(np.array([4, 0, 9]), np.array([2, 3, 1])).tolist() == [4, 5, 0, 1, 2, 9]


# ---------------------------------------------------------------- labels by id, known instances


@pytest.mark.parametrize(
    "y",
    [
        {"a": 1, "b": 0, "c": None},
        pd.Series([1, 0, None], index=["a", "b", "c"], dtype=object),
        pd.Series({"c": None, "b": 0, "a": 1}, dtype=object),
    ],
)
def test_align_puts_labels_in_the_order_of_the_bags(bags, y):
    assert bags.align(y).tolist() == [0, 1, None]


def test_align_matches_numbers_with_their_text_and_repeats_with_the_bags():
    bags = Bags(np.zeros((2, 1)), [10, 2])
    assert bags.align({2: "x", 10: "y"}).tolist() == ["y", "x"]
    assert bags[[1, 1, 0]].align(pd.Series([5, 6], index=[10, 2])).tolist() == [6, 6, 5]
    table = pd.DataFrame({"p": [0, 1], "q": [1, 1]}, index=["2", "10"])
    assert bags.align(table).tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ({"a": 1, "b": 0}, "no entry for bag 'c'"),
        ({"a": 1, "b": 0, "c": 1, "d": 1}, "an entry for an unknown bag 'd'"),
        ({"a": 1, "B": 0, "c": 1}, "no entry for bag 'b' and an entry for an unknown bag 'B'"),
        (pd.Series([1, 0, 1, 0], index=["a", "b", "c", "a"]), "name bag 'a' more than once"),
        ([1, 0, 1], "expected a dict, Series or DataFrame keyed by bag id, got list"),
    ],
)
def test_labels_of_other_bags_are_refused_by_name(bags, y, message):
    with pytest.raises(BagDataError, match=message):
        bags.align(y)


def test_known_labels_enter_by_the_front_door_only(bags):
    assert bags.with_known(None).known is None
    z = [1, None, 0, pd.NA, 1, 0]
    np.testing.assert_array_equal(bags.with_known(z).known, [1, np.nan, 0, np.nan, 1, 0])
    np.testing.assert_array_equal(bags.with_known(np.arange(6) % 2)["a"].known, [1, 0])


@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([0, 1], r"shape \(6,\), got shape \(2,\)"),
        ([0, 1, 2, 0, 0, 0], "row 2 holds .*2.0"),
        (["p"] * 6, "expected 0, 1 or NaN for every instance"),
    ],
)
def test_bad_known_labels(bags, z, message):
    with pytest.raises(BagDataError, match=message):
        bags.with_known(z)


def test_with_features_keeps_everything_else(bags):
    other = bags.with_features(np.ones((6, 3)), ["p", "q", "r"])
    assert (other.ids, other.feature_names, other.n_features) == (bags.ids, ("p", "q", "r"), 3)
    np.testing.assert_array_equal(other.known, bags.known)
    assert bags.with_features(np.ones((6, 3))).feature_names is None
    with pytest.raises(BagDataError, match=r"one row per instance \(6\), got 5"):
        bags.with_features(np.ones((5, 3)))


# ---------------------------------------------------------------- what estimators take


def test_as_bags(bags, X):
    assert as_bags(bags) is bags
    assert as_bags([X[:2], X[2:]]).sizes.tolist() == [2, 4]
    assert as_bags((X[:2], X[2:])).sizes.tolist() == [2, 4]
    assert as_bags([X[:2].tolist(), X[2:].tolist()]).sizes.tolist() == [2, 4]
    assert as_bags([scipy.sparse.csr_array(X[:2]), X[2:]]).sizes.tolist() == [2, 4]
    for single in (X, X.tolist(), list(X), scipy.sparse.csr_matrix(X), pd.DataFrame(X), torch.tensor(X)):
        assert as_bags(single).sizes.tolist() == [1] * 6
    assert as_bags(pd.DataFrame(X, columns=["u", "v"])).feature_names == ("u", "v")


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_files_keep_everything(tmp_path, sparse, dtype):
    X = np.array(
        [[0.1, 0.0], [0.0, np.pi], [1e-300 if dtype == np.float64 else 1e-30, np.nan], [7.0, 8.0]], dtype=dtype
    )
    given = scipy.sparse.csr_matrix(X) if sparse else X
    bags = Bags(given, ["日本 007", "007", "日本 007", "ü"], feature_names=["ä", "b"], known=[np.nan, 1, 0, np.nan])
    bags[[0, 1, 1]].save(tmp_path / "bags.npz")  # a repeated bag, as in a bootstrap
    back = Bags.load(tmp_path / "bags.npz")
    assert back.ids == ("日本 007", "007", "007")
    assert back.feature_names == ("ä", "b")
    assert back.rows.tolist() == [0, 2, 1, 1]
    assert back.offsets.tolist() == [0, 2, 3, 4]
    np.testing.assert_array_equal(back.known, [np.nan, 0, 1, 1])
    assert back.X.dtype == dtype
    assert scipy.sparse.issparse(back.X) == sparse
    np.testing.assert_array_equal(back.X.toarray() if sparse else back.X, X[[0, 2, 1, 1]])


def test_files_without_extras_and_of_any_name(tmp_path, X):
    Bags(X, KEYS).save(tmp_path / "bags")
    back = Bags.load(str(tmp_path / "bags"))
    assert back.known is None
    assert back.feature_names is None
    assert [path.name for path in tmp_path.iterdir()] == ["bags"]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, bags, monkeypatch):
    path = tmp_path / "bags.npz"
    bags.save(path)
    before = path.read_bytes()

    def full_disk(stream, **arrays):
        stream.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space left"):
        bags[0].save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_notebook_shows_the_first_bags_and_escapes_their_names():
    names = ["<script>alert(1)</script>", *map(str, range(11))]
    bags = Bags(np.zeros((12, 1)), names, feature_names=["<b>"], known=[1.0, *[np.nan] * 11])
    shown = bags._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "<b>&lt;" not in shown
    assert "4 more bags" in shown
    assert "1 known instances" not in shown
    assert "1 known instance" in shown
