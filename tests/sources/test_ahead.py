"""Reading ahead: the same items, one more of them made meanwhile."""

import threading

import numpy as np
import pytest
from tests.sources.stored_rows import Source, X

from bagwise import Bags
from bagwise.gp.moments import column_summary
from bagwise.sources.ahead import one_ahead


def test_items_come_in_order_and_the_next_is_made_while_one_is_worked_on():
    made = [threading.Event() for _ in range(4)]

    def items():
        for number, event in enumerate(made):
            event.set()
            yield number

    seen = []
    for number in one_ahead(items()):
        seen.append(number)
        assert number + 1 == len(made) or made[number + 1].wait(10)
    assert seen == [0, 1, 2, 3]


def test_an_error_of_the_reader_comes_after_what_was_read_before_it():
    def items():
        yield 1
        raise OSError("gone")

    ahead = one_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="gone"):
        next(ahead)


def test_reading_ahead_ends_with_whoever_stops_early():
    before = threading.active_count()
    ahead = one_ahead(iter(range(100)))
    next(ahead)
    ahead.close()
    assert threading.active_count() == before


def test_column_moments_of_rows_read_ahead_are_those_of_the_array(monkeypatch):
    monkeypatch.setattr("bagwise.gp.moments._ROWS", 7)
    bags = Bags.from_source(Source(X), [len(X)])
    for mine, plain in zip(column_summary(bags.X), column_summary(X), strict=True):
        np.testing.assert_array_equal(mine, plain)
