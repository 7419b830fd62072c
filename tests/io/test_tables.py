"""Files in, the same bags out; anything else is refused in one clear sentence."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
import pytest
import scipy.sparse

from bagwise import Bags
from bagwise.bag_models.rules import AtLeastOne
from bagwise.exceptions import BagDataError
from bagwise.io import read_npz, read_table, write_npz, write_table
from bagwise.io.bag_data import read_bags
from bagwise.io.npz import read_archive
from bagwise.io.predictions import bag_table
from bagwise.io.tables import SUFFIXES

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the benchmark data are not at {SHARED}")


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "slide": ["007", "NA", "007", "7"],
            "area": [0.1, 2.5, 1 / 3, 1e-300],
            "count": [1, 2, 3, 4],
            "cancer": [1.0, np.nan, 1.0, 0.0],
        }
    )


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_survives_the_round_trip_with_its_bag_keys(tmp_path, frame, suffix):
    path = tmp_path / f"cells{suffix}"
    write_table(frame, path)
    back = read_table(path, bag="slide")
    assert list(back["slide"]) == ["007", "NA", "007", "7"]
    pd.testing.assert_frame_equal(back.drop(columns="slide"), frame.drop(columns="slide"), check_exact=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_bags_come_out_of_every_kind_of_file(tmp_path, frame, suffix):
    path = tmp_path / f"cells{suffix}"
    write_table(frame, path)
    bags, y = Bags.from_frame(read_table(path, "slide"), bag="slide", label="cancer")
    assert bags.ids == ("007", "NA", "7")
    assert bags.feature_names == ("area", "count")
    np.testing.assert_array_equal(bags.X, frame[["area", "count"]].to_numpy()[[0, 2, 1, 3]])
    np.testing.assert_array_equal(y, [1.0, np.nan, 0.0])


def test_numeric_keys_of_a_typed_file_become_text(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"bag": [10, 2], "x": [0.0, 1.0]}).to_parquet(path)
    assert list(read_table(path, "bag")["bag"]) == ["10", "2"]


def test_a_named_index_is_a_column(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"bag": ["b", "a"], "x": [0.0, 1.0]}).set_index("bag").to_parquet(path)
    assert list(read_table(path, "bag")["bag"]) == ["b", "a"]


def test_an_arrow_stream_is_read_too(tmp_path, frame):
    path = tmp_path / "x.arrow"
    table = pyarrow.Table.from_pandas(frame)
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert list(read_table(path, "slide")["slide"]) == list(frame["slide"])


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("bag,x\n01,1\n", encoding="utf-8-sig")
    assert list(read_table(path, "bag")["bag"]) == ["01"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_empty_key_is_named_by_its_row(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    write_table(pd.DataFrame({"bag": ["a", None, "b"], "x": [1, 2, 3]}), path)
    with pytest.raises(BagDataError, match=r"'bag' is empty in row 1"):
        read_table(path, "bag")


def test_a_missing_bag_column_lists_what_there_is(tmp_path, frame):
    write_table(frame, tmp_path / "x.csv")
    with pytest.raises(BagDataError, match=r"no column 'patient'; the table has 'slide', 'area'"):
        read_table(tmp_path / "x.csv", "patient")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b""),
        ("x.csv", b"\xff\xfe\x00\x81PNG"),
        ("x.csv", b"a,b\n1,2,3\n"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n"),
        ("x.csv.gz", b"a,b\n1,2\n"),
        ("x.parquet", b"PAR1 and then nothing"),
        ("x.parquet", b""),
        ("x.arrow", b"ARROW1 and then nothing"),
        ("x.feather", b""),
    ],
)
def test_a_damaged_or_foreign_file_is_one_clear_error(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BagDataError, match=r"cannot be read as a \.") as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_truncated_gzip_file_is_refused(tmp_path, frame):
    path = tmp_path / "x.csv.gz"
    write_table(pd.concat([frame] * 500), path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BagDataError, match="is it complete"):
        read_table(path)


def test_repeated_columns_and_other_separators_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,a\n1,2,3\n")
    with pytest.raises(BagDataError, match="'a' occurs twice"):
        read_table(path)
    path.write_text("a;b\n1;2\n")
    with pytest.raises(BagDataError, match="no commas"):
        read_table(path)


def test_unknown_kinds_and_absent_files(tmp_path):
    with pytest.raises(BagDataError, match=r"must end in \.csv"):
        read_table(tmp_path / "x.xlsx")
    with pytest.raises(BagDataError, match=r"must end in \.csv"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "x.txt")
    for suffix in SUFFIXES:
        with pytest.raises(FileNotFoundError):
            read_table(tmp_path / f"absent{suffix}")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(pd.DataFrame({"a": [1]}), path)
    before = path.read_bytes()
    with pytest.raises(pyarrow.ArrowException):
        write_table(pd.DataFrame({"a": [1, "x", object()]}), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


# ---------------------------------------------------------------- archives


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_an_archive_survives_the_round_trip(tmp_path):
    bags = Bags.from_frame(pd.DataFrame({"g": ["b", "a", "b"], "u": [1.0, 2, 3], "v": [4.0, 5, 6]}), bag="g")
    write_npz(tmp_path / "x.npz", bags, y=[1, 0], instance_y=[0, np.nan, 1])
    back, y, instance_y = read_npz(tmp_path / "x.npz")
    assert back.ids == ("b", "a")
    assert back.feature_names == ("u", "v")
    np.testing.assert_array_equal(back.X, bags.X)
    np.testing.assert_array_equal(y, [1, 0])
    np.testing.assert_array_equal(instance_y, [0, np.nan, 1])


def test_sparse_parts_stay_sparse(tmp_path):
    X = scipy.sparse.random(6, 5, density=0.4, random_state=0, format="csr")
    write_npz(tmp_path / "x.npz", Bags(X, [0, 0, 1, 1, 1, 2]))
    bags, y, instance_y = read_npz(tmp_path / "x.npz")
    assert scipy.sparse.issparse(bags.X)
    assert (bags.X != X).nnz == 0
    assert y is None
    assert instance_y is None


def test_labels_follow_their_bags_when_numbers_are_out_of_order(tmp_path):
    path = save(tmp_path / "x.npz", X=np.arange(8).reshape(4, 2), bag=[2, 0, 2, 1], y=[10, 11, 12], instance_y=range(4))
    bags, y, instance_y = read_npz(path)
    assert bags.ids == ("2", "0", "1")
    np.testing.assert_array_equal(y, [12, 10, 11])
    np.testing.assert_array_equal(instance_y, [0, 2, 1, 3])


def test_pixels_are_not_rescaled_and_unknown_is_nan(tmp_path):
    X = np.array([[0, 255], [7, 16]], dtype=np.uint8)
    bags, y, instance_y = read_npz(
        save(tmp_path / "x.npz", X=X, bag=[0, 1], candidates=[[1, 0], [1, 1]], instance_y=[-1, 1])
    )
    np.testing.assert_array_equal(bags.X, [[0, 255], [7, 16]])
    np.testing.assert_array_equal(y, [[1, 0], [1, 1]])
    np.testing.assert_array_equal(instance_y, [np.nan, 1])


def test_another_array_may_hold_the_labels(tmp_path):
    arrays = {"y": [0, 1], "y_bin": [1, 0], "two": np.eye(2), "three": np.ones((2, 3)), "class_names": ["u", "v"]}
    path = save(tmp_path / "x.npz", X=np.ones((2, 1)), bag=["a", "b"], **arrays)
    np.testing.assert_array_equal(read_npz(path, label="y_bin")[1], [1, 0])
    assert read_npz(path)[0].ids == ("a", "b")
    assert read_archive(path).names == ["y"]
    assert read_archive(path, ["two"]).names == ["u", "v"]
    assert read_archive(path, ["three"]).names == ["y_0", "y_1", "y_2"]
    with pytest.raises(BagDataError, match="no array 'z'; it holds 'X', 'bag'"):
        read_npz(path, label="z")


def test_several_arrays_of_an_archive_become_columns(tmp_path):
    arrays = {"lo": [0, 1], "hi": [1, 2], "y": [0, 1], "two": np.eye(2)}
    path = save(tmp_path / "x.npz", X=np.ones((3, 1)), bag=[1, 0, 1], **arrays)
    found = read_archive(path, ["lo", "hi"])
    np.testing.assert_array_equal(found.y, [[1, 2], [0, 1]])
    assert found.names == ["lo", "hi"]
    with pytest.raises(BagDataError, match="'lo', 'two' must each hold one entry per bag"):
        read_archive(path, ["lo", "two"])


def test_what_an_archive_lacks_is_not_replaced_by_something_else(tmp_path):
    path = save(tmp_path / "x.npz", X=np.ones((2, 1)), bag=[0, 1], y=[0, 1])
    found = read_archive(path, ["share"], "seen", may_be_absent=True)
    assert (found.y, found.bags.known, found.names) == (None, None, [])
    for wanted in (["share"], None), (["y"], "seen"):
        with pytest.raises(BagDataError, match="no array 's"):
            read_archive(path, *wanted)


# ---------------------------------------------------------------- known instances


def test_known_instances_of_a_table_follow_their_rows(tmp_path, frame):
    write_table(frame.assign(seen=[1.0, np.nan, 0.0, np.nan]), tmp_path / "x.csv")
    found = read_bags(tmp_path / "x.csv", bag="slide", labels=["cancer"], known="seen")
    np.testing.assert_array_equal(found.bags.known, [1, 0, np.nan, np.nan])
    assert found.bags.feature_names == ("area", "count")
    unnamed = read_bags(tmp_path / "x.csv", bag="slide", ignore=["seen", "cancer"])
    assert unnamed.bags.known is None
    absent = read_bags(tmp_path / "x.csv", bag="slide", known="other", ignore=["seen"], labels_may_be_absent=True)
    assert absent.bags.known is None


def test_instance_labels_of_a_table_follow_their_rows(tmp_path, frame):
    write_table(frame.assign(truth=[1, 2, 3, 4]), tmp_path / "x.csv")
    found = read_bags(tmp_path / "x.csv", bag="slide", labels=["cancer"], instance_labels=["truth"])
    np.testing.assert_array_equal(found.instance_y, found.bags.rows + 1)
    assert found.bags.rows.tolist() != [0, 1, 2, 3]


def test_known_instances_of_an_archive_follow_their_rows(tmp_path):
    path = save(tmp_path / "x.npz", X=np.ones((4, 1)), bag=[1, 0, 1, 0], y=[0, 1], seen=[1, 0, -1, -1])
    found = read_bags(path, known="seen")
    np.testing.assert_array_equal(found.bags.known, [1, np.nan, 0, np.nan])
    assert read_bags(path).bags.known is None


@pytest.mark.parametrize(("seen", "message"), [([0, 1, 0, 2], "row 3 holds"), (list("abcd"), "expected 0, 1 or NaN")])
def test_known_instances_are_zero_or_one(tmp_path, frame, seen, message):
    write_table(frame.assign(seen=seen).iloc[[3, 0, 1, 2]][::-1], tmp_path / "x.csv")
    with pytest.raises(BagDataError, match=rf"x.csv: column 'seen': known: {message}"):
        read_bags(tmp_path / "x.csv", bag="slide", known="seen")


# ---------------------------------------------------------------- predictions


class Teller:
    """Says the same of every bag, for one label or for two."""

    rule_ = AtLeastOne()

    def __init__(self, n_labels):
        self.n_labels = n_labels
        self.classes_ = np.array(["no", "yes"]) if n_labels == 1 else [np.array([0, 1])] * n_labels

    def predict_proba(self, bags):
        return np.tile([0.25, 0.75], (len(bags), 1))

    def predict_fraction(self, bags, level=0.9):
        parts = np.array([0.5, 0.25, 1.0])[:, None, None] * np.ones((len(bags), self.n_labels))
        return tuple(parts[..., 0] if self.n_labels == 1 else parts)


def test_expected_fractions_stand_in_the_table_of_bags():
    bags = Bags(np.ones((3, 1)), ["a", "b", "a"])
    table = bag_table(Teller(1), bags)
    expected = {"bag": "b", "size": 1, "probability": 0.75, "prediction": "yes", "fraction": 0.5}
    assert table.iloc[1].to_dict() == expected | {"fraction_low": 0.25, "fraction_high": 1.0}
    assert list(bag_table(Teller(2), bags, ["u", "v"]).columns[-3:]) == [
        "fraction_v",
        "fraction_low_v",
        "fraction_high_v",
    ]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((2, 1))}, "no array 'bag'"),
        ({"bag": [0, 1]}, "no array 'X'"),
        ({"X": np.ones(2), "bag": [0, 1]}, "Expected 2D"),
        ({"X": np.ones((2, 1)), "bag": [0, 2]}, "no bag 1"),
        ({"X": np.ones((2, 1)), "bag": [0.0, 1.0]}, "one whole number or text per row"),
        ({"X": np.ones((2, 1)), "bag": [0, 1, 1]}, "one key per row"),
        ({"X": np.ones((2, 1)), "bag": [0, 1], "y": [1]}, r"one entry per bag \(2\)"),
        ({"X": np.ones((2, 1)), "bag": [0, 1], "instance_y": [1]}, r"one entry per instance \(2\)"),
        ({"X": np.ones((2, 1)), "bag": [0, 1], "instance_y": ["a", "b"]}, "must hold numbers"),
        ({"X": np.ones((2, 1)), "bag": [0, 1], "bag_name": ["a", "a"]}, "two bags alike"),
        ({"data": [1.0], "indices": [9], "indptr": [0, 1], "shape": [1, 2], "bag": [0]}, "do not form a sparse matrix"),
    ],
)
def test_archives_that_do_not_hold_bags(tmp_path, arrays, message):
    with pytest.raises(BagDataError, match=message):
        read_npz(save(tmp_path / "x.npz", **arrays))


def test_objects_are_never_unpickled(tmp_path):
    path = save(tmp_path / "x.npz", X=np.array([[1.0]]), bag=np.array([{"a": 1}], dtype=object))
    with pytest.raises(BagDataError, match="cannot be read"):
        read_npz(path)


def test_damaged_archives_and_labels_that_cannot_be_kept(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(BagDataError, match="cannot be read"):
        read_npz(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "absent.npz")
    bags = Bags(np.ones((2, 1)), ["a", "b"])
    with pytest.raises(BagDataError, match="encode the classes"):
        write_npz(tmp_path / "y.npz", bags, y=np.array(["yes", None], dtype=object))
    with pytest.raises(BagDataError, match=r"one entry per bag \(2\)"):
        write_npz(tmp_path / "y.npz", bags, y=[1])
    assert not (tmp_path / "y.npz").exists()


@needs_shared
@pytest.mark.parametrize(
    ("name", "n_bags", "n_instances", "label_shape"),
    [("musk1", 92, 476, (92,)), ("hja_birdsong", 548, 10232, (548, 13)), ("mnist_mipl_rebuilt", 500, 20664, (500,))],
)
def test_published_archives(name, n_bags, n_instances, label_shape):
    bags, y, instance_y = read_npz(SHARED / f"{name}.npz")
    assert (len(bags), bags.n_instances) == (n_bags, n_instances)
    assert y.shape == label_shape
    assert instance_y is None or instance_y.shape == (n_instances,)


@needs_shared
def test_a_published_archive_without_bags_says_so():
    with pytest.raises(BagDataError, match="no array 'bag'"):
        read_npz(SHARED / "mnist_20k.npz")
