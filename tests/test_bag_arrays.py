"""Bags in files."""

import numpy as np
import pytest
import scipy.sparse
from tests.bag_tables import KEYS, new_bags, new_X

from bagwise import Bags


@pytest.fixture
def X():
    return new_X()


@pytest.fixture
def bags(X):
    return new_bags(X)


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
