"""How long it will take."""

import pytest
from tests.bench.tiny_table import tiny_table

from bagwise.bench.cells import Choice, cells_of
from bagwise.bench.progress import Clock, duration


def test_the_time_left_goes_by_model():
    cells = cells_of(tiny_table(), Choice(only=("calm", "probit", "SVM")))
    clock = Clock(cells, 2)
    assert clock.seconds_left() is None
    clock.done(cells[0], 10.0)
    clock.done(cells[1], 1.0)
    assert clock.seconds_left() == pytest.approx((2 * 10 + 2 * 1) / 2)
    assert [duration(60), duration(600), duration(7200)] == ["60 s", "10 min", "2.0 h"]
