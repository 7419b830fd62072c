"""Where chunks live: files that come back as they were, and a disk that is full."""

import gc
import os

import pytest
import torch
from tests.equivalence.stored_problems import SMALL, fitted, problem

import bagwise
from bagwise import BagDataError
from bagwise.inference.places import TensorFile


def test_tensors_come_back_from_a_file_as_they_were_and_changes_do_not_reach_it(tmp_path):
    file = TensorFile(tmp_path)
    tensors = [torch.randn(5, 3), torch.empty(0, 4), torch.arange(7), torch.randn(2, dtype=torch.float64)]
    slots = [file.put(tensor) for tensor in tensors]
    file.get(slots[0]).zero_()
    for slot, tensor in zip(slots, tensors, strict=True):
        assert torch.equal(file.get(slot), tensor)
        assert file.get(slot).dtype == tensor.dtype
    assert list(tmp_path.iterdir()) == []


def test_full_disk_in_the_cache_is_a_clear_error(monkeypatch, tmp_path):
    _, stored, y = problem()

    def full(self, values):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(TensorFile, "_write", full)
    with (
        bagwise.scale.within(memory=0, cache=tmp_path),
        pytest.raises(BagDataError, match=r"cannot be written there \(No space left on device\).*Nothing is left"),
    ):
        fitted("mil-gp-probit", SMALL, stored, y)
    gc.collect()
    assert list(tmp_path.iterdir()) == []
