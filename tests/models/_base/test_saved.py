"""Devices that are not there; what is not fitted is not saved."""

import pytest
import torch
from sklearn.exceptions import NotFittedError
from tests.bad_models import model, new_bags, new_y

import bagwise
from bagwise import BagDataError, MILGPProbit


@pytest.fixture
def bags():
    return new_bags()


@pytest.fixture
def y(bags):
    return new_y(bags)


def test_an_unfitted_estimator_cannot_be_scored_or_saved(bags, y, tmp_path):
    with pytest.raises(NotFittedError):
        MILGPProbit().score(bags, y)
    with pytest.raises(NotFittedError):
        MILGPProbit().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there(bags, y, tmp_path, name):
    with pytest.raises(
        BagDataError, match=f"device='{name}': this machine has no usable CUDA device; use device='cpu'"
    ):
        model(device=name).fit(bags, y)
    model().fit(bags, y).save(tmp_path / "model")
    with pytest.raises(BagDataError, match="no usable CUDA device"):
        bagwise.load(tmp_path / "model", device=name)
