"""Arrays that stay in their files."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from tests.sources.stored_rows import Source, X
from tests.sources.stored_tables import new_frame, same

from bagwise import BagDataError, Bags
from bagwise.sources.arrays import JoinedRows


@pytest.fixture
def frame():
    return new_frame()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_npy_opened_equals_the_array(frame, tmp_path, kind):
    X = frame[["x", "y", "z"]].to_numpy(kind)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "bag.npy", frame["slide"].to_numpy(str))
    bags, y = Bags.open(tmp_path / "X.npy", tmp_path / "bag.npy", label=frame["label"].to_numpy())
    same(bags, Bags(X, frame["slide"].to_numpy()))
    np.testing.assert_array_equal(y, [0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    with pytest.raises(BagDataError, match=r"do not stand together.*argsort"):
        Bags.open(tmp_path / "X.npy", np.arange(58) % 3)


def test_npy_with_objects_is_refused(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(BagDataError, match=r"cannot be read as a \.npy"):
        Bags.open(tmp_path / "X.npy", [0])


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_safetensors_opened_equals_the_tensor(frame, tmp_path, kind):
    X = torch.tensor(frame[["x", "y", "z"]].to_numpy().copy(order="C")).to(kind)
    codes = pd.factorize(frame["slide"])[0]
    path = tmp_path / "X.safetensors"
    save_file({"X": X, "bag": torch.tensor(codes), "y": torch.tensor(frame["label"].to_numpy())}, path)
    bags, y = Bags.open(path, "bag", label="y")
    wide = X.float().numpy() if kind == torch.bfloat16 else X.numpy()
    same(bags, Bags(wide, codes))
    np.testing.assert_array_equal(y, [0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    with pytest.raises(BagDataError, match=r"expected a tensor 'rows'.*X, bag, y"):
        Bags.open(path, "bag", features="rows")


def test_joined_rows_read_across_their_parts():
    joined = JoinedRows([Source(X[:10]), X[10:11], Source(X[11:])])
    assert joined.shape == X.shape
    for start, stop in [(0, 60), (9, 12), (10, 11), (5, 10), (11, 60), (3, 3)]:
        np.testing.assert_array_equal(joined.read(start, stop), X[start:stop])
