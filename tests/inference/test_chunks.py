"""Sums over chunks in one tree."""

import numpy as np
import pytest
import torch

from bagwise.inference.chunks import Chunk, InMemory, TreeSum
from bagwise.scale.tasks import sums_added


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
    parts = [sums_added(values[start : start + shard]) for start in range(0, n, shard)]
    while len(parts) > 1:
        parts = [sums_added(parts[start : start + 8]) for start in range(0, len(parts), 8)]
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
