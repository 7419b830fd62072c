"""Rows put aside: what was announced and came by is there, and nothing else."""

import numpy as np
import pytest
from tests.sources.stored_rows import X

from bagwise.sources.shelf import Shelf

ANNOUNCED = np.array([30, 8, 9, 10, 59, 8])


def filled(stop=60):
    shelf = Shelf(ANNOUNCED, 3, X.dtype)
    for start in range(0, stop, 16):
        shelf.put(start, X[start : start + 16])
    return shelf


def test_rows_that_came_by_are_there_in_any_order_and_as_runs():
    shelf = filled()
    np.testing.assert_array_equal(shelf.at(np.array([59, 8, 30, 8])), X[[59, 8, 30, 8]])
    np.testing.assert_array_equal(shelf.run(8, 3), X[8:11])
    np.testing.assert_array_equal(shelf.all_rows(), X[[8, 9, 10, 30, 59]])
    assert len(shelf.missing()) == 0


@pytest.mark.parametrize("rows", [[8, 11], [60], [7], [0]])
def test_rows_that_were_not_announced_are_not_there(rows):
    assert filled().at(np.array(rows)) is None


@pytest.mark.parametrize(("first", "size"), [(7, 2), (9, 3), (30, 2), (58, 2), (59, 2)])
def test_runs_with_a_row_that_was_not_announced_are_not_there(first, size):
    assert filled().run(first, size) is None


def test_rows_that_did_not_come_by_are_missing():
    shelf = filled(stop=32)
    assert shelf.all_rows() is None
    assert shelf.run(59, 1) is None
    assert shelf.at(np.array([8, 59])) is None
    np.testing.assert_array_equal(shelf.missing(), [59])
    np.testing.assert_array_equal(shelf.at(np.array([8, 30])), X[[8, 30]])


def test_what_is_done_to_rows_does_not_reach_the_shelf():
    shelf = filled()
    for found in (shelf.run(8, 3), shelf.at(np.array([8, 9])), shelf.all_rows()):
        found[:] = 0.0
    np.testing.assert_array_equal(shelf.run(8, 3), X[8:11])


def test_rows_that_somebody_else_has_read_are_taken_as_well():
    shelf = filled(stop=32)
    shelf.put_rows(np.array([59]), X[[59]])
    np.testing.assert_array_equal(shelf.all_rows(), X[[8, 9, 10, 30, 59]])
