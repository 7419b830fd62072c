"""Bounds for one process."""

import pytest
import torch
from tests.equivalence.stored_problems import SMALL, problem

import bagwise
from bagwise import BagDataError


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"memory": "much"}, "memory='much': expected a number of bytes"),
        ({"memory": -1}, "memory=-1"),
        ({"cache": "/no/such/folder"}, "there is no such folder"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(settings, reason):
    with pytest.raises(BagDataError, match=reason), bagwise.scale.within(**settings):
        pass


def test_bounds_end_with_their_block():
    threads = torch.get_num_threads()
    bags, _, y = problem()
    seen = []
    with bagwise.scale.within(threads=threads + 1):
        bagwise.VGPMIL(**SMALL, max_iter=2, callback=lambda *_: seen.append(torch.get_num_threads())).fit(bags, y)
    assert torch.get_num_threads() == threads == seen[-1]
