"""Bags are indexed by bag."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bag_tables import new_bags, new_X

from bagwise import Bags
from bagwise.bags import ragged_ranges
from bagwise.exceptions import BagDataError


@pytest.fixture
def X():
    return new_X()


@pytest.fixture
def bags(X):
    return new_bags(X)


@pytest.mark.parametrize(
    ("key", "ids"),
    [
        (0, "b"),
        (-1, "c"),
        (np.int64(1), "a"),
        (slice(1, None), "ac"),
        (slice(None), "bac"),
        (slice(None, None, 2), "bc"),
        (slice(None, None, -1), "cab"),
        ([2, 0], "cb"),
        ([-1, 1], "ca"),
        (np.array([1]), "a"),
        (np.array([True, False, True]), "bc"),
        ([False, True, True], "ac"),
        (pd.Series([True, False, False]), "b"),
        (torch.tensor([2, 1]), "ca"),
        (([0, 1], ...), "ba"),
        ((slice(1, 3), ...), "ac"),
        ([1, 1, 0], "aab"),
        ("c", "c"),
    ],
)
def test_indexing_is_by_bag(bags, key, ids):
    some = bags[key]
    assert isinstance(some, Bags)
    assert some.ids == tuple(ids)
    cuts = bags.offsets[1:-1]
    for found, everything in ((some.X, bags.X), (some.rows, bags.rows), (some.known, bags.known)):
        parts = dict(zip(bags.ids, np.split(everything, cuts), strict=True))
        np.testing.assert_array_equal(found, np.concatenate([parts[name] for name in ids]))
    assert some.sizes.tolist() == [{"b": 3, "a": 2, "c": 1}[name] for name in ids]
    assert some.offsets.tolist() == [0, *np.cumsum(some.sizes)]
    assert some.feature_names == ("u", "v")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_bootstrap_equals_a_plain_loop(numbers):
    arrays = [np.full((size, 1), size, dtype=float) for size in (3, 1, 2, 5, 4)]
    found = Bags.from_list(arrays)[numbers]
    np.testing.assert_array_equal(found.X, np.concatenate([arrays[number] for number in numbers]))


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        (3, IndexError, "there are 3 bags, numbered from 0; got 3"),
        ([0, -4], IndexError, "there are 3 bags"),
        (1.5, IndexError, "indexed by bag only"),
        ([0.0, 1.0], IndexError, "indexed by bag only"),
        (True, IndexError, "indexed by bag only"),
        (None, IndexError, "indexed by bag only"),
        ([[0, 1]], IndexError, "indexed by bag only"),
        ((0, 1), IndexError, "indexed by bag only"),
        ([True, False], IndexError, "the mask has 2 entries, but there are 3 bags"),
        ([], BagDataError, "keeps no bag"),
        (slice(3, 3), BagDataError, "keeps no bag"),
        (np.zeros(3, dtype=bool), BagDataError, "keeps no bag"),
        ("x", KeyError, "there is no bag 'x'"),
    ],
)
def test_keys_that_select_no_bags_are_refused(bags, key, kind, message):
    with pytest.raises(kind, match=message):
        bags[key]


def test_neighbouring_bags_are_not_copied(bags):
    assert np.shares_memory(bags[1:3].X, bags.X)


def test_ragged_ranges_are_the_rows_of_the_chosen_bags():
    assert ragged_ranges(np.array([4, 0, 9]), np.array([2, 3, 1])).tolist() == [4, 5, 0, 1, 2, 9]
