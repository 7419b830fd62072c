"""Sums are added in one tree, whoever adds; states go through a file unchanged; fingerprints tell questions apart."""

import numpy as np
import pytest
import torch
from safetensors.torch import save

from bagwise.exceptions import BagDataError, ModelFileError
from bagwise.gp.features import Design
from bagwise.inference.belief import Belief
from bagwise.inference.chunks import Chunk, InMemory, OfColumn, TreeSum
from bagwise.inference.expectation_propagation import Sites, move_step, propose_step
from bagwise.numerics.segments import Segments
from bagwise.scale.cluster import _added
from bagwise.scale.fingerprint import fingerprint
from bagwise.scale.journal import SweepJournal, read_state, write_state
from bagwise.scale.plain_state import decode, encode


def numbers(n):
    """Numbers whose sum depends on the order in which they are added."""
    random = np.random.default_rng(n)
    return [{"s": torch.tensor(10.0 ** random.integers(-8, 9) * random.standard_normal())} for _ in range(n)]


def by_hand(values):
    """The largest complete subtree on the left, the rest on the right."""
    if len(values) == 1:
        return values[0]["s"]
    left = 2 ** ((len(values) - 1).bit_length() - 1)
    return by_hand(values[:left]) + by_hand(values[left:])


def summed(values):
    tree = TreeSum()
    for value in values:
        tree.add(value)
    return tree.total()["s"]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 11, 16, 37])
def test_tree_sum_is_the_tree_written_down(n):
    values = numbers(n)
    assert summed(values) == by_hand(values)
    assert summed(values) == pytest.approx(float(sum(value["s"] for value in values)))


@pytest.mark.parametrize("n", [1, 5, 8, 23, 64, 77, 200])
@pytest.mark.parametrize("shard", [1, 2, 4])
def test_shards_added_a_few_at_a_time_make_the_same_tree(n, shard):
    values = numbers(n)
    parts = [_added(values[start : start + shard]) for start in range(0, n, shard)]
    while len(parts) > 1:
        parts = [_added(parts[start : start + 8]) for start in range(0, len(parts), 8)]
    assert parts[0]["s"] == summed(values)


def test_nothing_adds_up_to_nothing():
    assert TreeSum().total() == {}


def test_single_precision_is_added_in_double():
    tree = TreeSum()
    for _ in range(4):
        tree.add({"s": torch.tensor(1.0 + 2.0**-23, dtype=torch.float32)})
    assert tree.total()["s"].dtype == torch.float64
    assert tree.total()["s"] == 4.0 * (1.0 + 2.0**-23)


def test_views_have_a_memory_of_their_own():
    chunks = InMemory([Chunk(None, 1), Chunk(None, 2)])
    seen = chunks.through(lambda chunk: chunk._replace(evidence=10 * chunk.evidence))
    step = lambda chunk, before, _: ({"s": torch.tensor(float(chunk.evidence))}, chunk.evidence)  # noqa: E731
    assert seen.sweep(step, None)["s"] == 30.0
    assert (chunks.remembered, seen.remembered) == ([None, None], [10, 20])


STATES = [
    None,
    torch.arange(3.0),
    Sites(torch.zeros(2, 1), torch.ones(2, 1), (torch.ones(1), torch.zeros(0)), (torch.ones(1), torch.ones(1))),
    Chunk(Design(torch.ones(3, 2), torch.zeros(3), Segments(torch.tensor([0, 1, 3]))), None, 7),
    (1, 2.5, "text", [True, None]),
    OfColumn(3),
]


@pytest.mark.parametrize("state", STATES, ids=[type(state).__name__ for state in STATES])
def test_states_come_back_from_a_file_as_they_were(state, tmp_path):
    path = write_state(str(tmp_path / "s.safetensors"), [state, state])
    assert [fingerprint(found) for found in read_state(path)] == [fingerprint(state)] * 2
    assert type(read_state(path)[0]) is type(state)


def test_states_of_other_classes_are_neither_written_nor_read():
    with pytest.raises(ModelFileError, match="cannot hold a set"):
        encode({1, 2}, {})
    for name in ("os:system", "bagwise.models:load", "bagwise.bags:Bags", "bagwise.bags:absent"):
        with pytest.raises(ModelFileError, match="no plain class of bagwise"):
            decode({"class": name, "parts": []}, {})


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


def test_states_that_are_not_complete_are_not_used(tmp_path):
    journal = SweepJournal(tmp_path / "j", 2)
    journal.write_sums(1, "q", {})
    write_state(journal.state_path(1, 0), [None])
    assert SweepJournal(tmp_path / "j", 2).last_state == 0
    journal.forget_states_before(20)
    assert not list((tmp_path / "j").glob("state-*"))


def test_fingerprints_tell_steps_values_shapes_and_closures_apart():
    def inside(value):
        return lambda: value

    belief = Belief.prior(2, 1, torch.device("cpu"))
    different = [
        *(propose_step, move_step, inside(1), inside(2), belief, belief._replace(mean=belief.mean + 1e-16), save),
        *(0.5, 1, True, "1", None, torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(6), np.zeros(6), {"a": 1}),
    ]
    assert len({fingerprint(value) for value in different}) == len(different)
    assert fingerprint(belief, 1) == fingerprint(Belief.prior(2, 1, torch.device("cpu")), 1)
