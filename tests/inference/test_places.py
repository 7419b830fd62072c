"""Where chunks live: files that come back as they were, and a disk that is full."""

import gc
import os

import pytest
import torch
from tests.equivalence.stored_problems import SMALL, fitted, problem

import bagwise
from bagwise import BagDataError
from bagwise.inference.chunks import Extent
from bagwise.inference.places import Spilled, TensorFile, ThisProcess


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


def test_features_on_a_gpu_may_take_half_of_what_is_free_there(monkeypatch):
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (900, 4000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 350)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 250)  # so torch keeps 100 that it does not use
    assert isinstance(ThisProcess().hold([], Extent(1, 500, gpu)), list)
    assert isinstance(ThisProcess().hold([], Extent(1, 501, gpu)), Spilled)
    assert isinstance(ThisProcess().hold([], Extent(1, 501)), list)  # of the machine's own memory
    assert ThisProcess(memory=7).memory_bytes(gpu) == 7
