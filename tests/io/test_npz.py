"""Archives of bags: what is kept, what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from tests.io.files import save

from bagwise import Bags
from bagwise.exceptions import BagDataError
from bagwise.io import read_npz, write_npz
from bagwise.io.npz import read_archive

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the benchmark data are not at {SHARED}")


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
def test_published_archives_hold_the_published_numbers_of_bags(name, n_bags, n_instances, label_shape):
    bags, y, instance_y = read_npz(SHARED / f"{name}.npz")
    assert (len(bags), bags.n_instances) == (n_bags, n_instances)
    assert y.shape == label_shape
    assert instance_y is None or instance_y.shape == (n_instances,)


@needs_shared
def test_a_published_archive_without_bags_says_so():
    with pytest.raises(BagDataError, match="no array 'bag'"):
        read_npz(SHARED / "mnist_20k.npz")


def sparse_archive(path, shape):
    np.savez(path, data=[1.0], indices=[0], indptr=[0, *[1] * shape[0]], shape=shape, bag=np.arange(shape[0]))
    return path


def test_enormous_width_of_a_sparse_table_is_refused(tmp_path):
    with pytest.raises(BagDataError, match=r"268,435,456 columns; there may be 16,777,216"):
        read_npz(sparse_archive(tmp_path / "x.npz", (3, 2**28)))


SOUND = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}


@pytest.mark.parametrize(
    "change",
    [
        {"indptr": np.array([0.0, 1.0, np.inf])},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([0, 1, 2**62])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([], dtype=int), "shape": np.array([-1, 2])},
        {"indices": np.array([0, 2])},
        {"indices": np.array([0, -1])},
        {"indices": np.array([[0, 1]])},
        {"data": np.ones(3)},
        {"data": np.array([1j, 1])},
        {"shape": np.array([2])},
        {"shape": np.array([2, 2**63], dtype=np.uint64)},
        {"shape": np.array([2.0, 2.0])},
    ],
    ids=lambda change: str(next(iter(change.items()))),
)
def test_parts_of_a_sparse_matrix_that_do_not_fit_are_refused(tmp_path, change):
    np.savez(tmp_path / "x.npz", bag=[0, 1], **SOUND | change)
    with pytest.raises(BagDataError, match="do not form a sparse matrix"):
        read_npz(tmp_path / "x.npz")
    Bags(scipy.sparse.csr_matrix(np.eye(2)), ["a", "b"]).save(tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as archive:
        stored = {name: archive[name] for name in archive.files}
    np.savez(tmp_path / "b.npz", **stored | change)
    with pytest.raises(BagDataError, match="the file of bags is damaged"):
        Bags.load(tmp_path / "b.npz")


def test_archives_of_other_machines_and_types_are_read(tmp_path):
    """Big-endian numbers and text, unsigned keys, names of features that are no list."""
    arrays = {"X": np.ones((2, 1), dtype=">f4"), "bag": np.array([1, 0], dtype=np.uint64), "columns": np.array("x")}
    np.savez(tmp_path / "x.npz", **arrays, bag_name=np.array(["p", "q"], dtype=">U1"), y=np.array([0, 1], dtype=">i4"))
    bags, y, _ = read_npz(tmp_path / "x.npz")
    assert (bags.ids, bags.feature_names) == (("q", "p"), None)
    np.testing.assert_array_equal(y, [1, 0])
