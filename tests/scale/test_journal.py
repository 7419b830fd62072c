"""Journals: sums of the same question, states that are complete."""

import errno
import os

import pytest
import torch

from bagwise.exceptions import BagDataError
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk, OfColumn, PiecesOfColumn
from bagwise.inference.expectation_propagation import Sites
from bagwise.numerics.segments import Segments
from bagwise.scale.fingerprint import fingerprint
from bagwise.scale.journal import SweepJournal, read_state, write_state

STATES = [
    None,
    torch.arange(3.0),
    Sites(torch.zeros(2, 1), torch.ones(2, 1), (torch.ones(1), torch.zeros(0)), (torch.ones(1), torch.ones(1))),
    Chunk(Design(torch.ones(3, 2), torch.zeros(3), Segments(torch.tensor([0, 1, 3]))), None, 7),
    (1, 2.5, "text", [True, None]),
    OfColumn(3),
    PiecesOfColumn(3),
]


@pytest.mark.parametrize("state", STATES, ids=[type(state).__name__ for state in STATES])
def test_states_come_back_from_a_file_as_they_were(state, tmp_path):
    path = write_state(str(tmp_path / "s.safetensors"), [state, state])
    assert [fingerprint(found) for found in read_state(path)] == [fingerprint(state)] * 2
    assert type(read_state(path)[0]) is type(state)


def test_journal_gives_back_sums_of_the_same_question_and_forgets_those_of_another(tmp_path):
    sums = {"a": torch.tensor([0.1, 0.2], dtype=torch.float64)}
    journal = SweepJournal(tmp_path / "j", 2)
    for shard in range(2):
        write_state(journal.state_path(3, shard), [None])
    assert SweepJournal(tmp_path / "j", 2).last_state == 0  # states without the sums that led to them
    for sweep in (1, 2, 3):
        journal.write_sums(sweep, "q", sums)
    again = SweepJournal(tmp_path / "j", 2)
    assert again.last_state == 3
    assert torch.equal(again.sums(1, "q")["a"], sums["a"])
    assert again.sums(4, "q") is None
    with pytest.raises(BagDataError, match="checkpoint of a fit with other settings"):
        again.sums(2, "another")
    assert again.sums(1, "another") is None
    assert again.last_state == 0
    assert again.sums(1, "q") is None


def test_full_disk_is_a_clear_error_and_leaves_the_checkpoint_as_it_was(tmp_path, monkeypatch):
    journal = SweepJournal(tmp_path / "c" / "j", 1)
    journal.write_sums(1, "q", {"a": torch.ones(1)})

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bagwise._files.os.fsync", full)
    for write in (lambda: journal.write_sums(2, "q", {}), lambda: write_state(journal.state_path(1, 0), [None])):
        with pytest.raises(BagDataError, match=r"c: the checkpoint cannot be written there \(No space left.*goes on"):
            write()
    assert [path.name for path in journal.folder.iterdir()] == ["sums-000001.safetensors"]


def test_states_that_are_not_complete_are_not_used(tmp_path):
    journal = SweepJournal(tmp_path / "j", 2)
    journal.write_sums(1, "q", {})
    write_state(journal.state_path(1, 0), [None])
    assert SweepJournal(tmp_path / "j", 2).last_state == 0
    journal.forget_states_before(20)
    assert not list((tmp_path / "j").glob("state-*"))
