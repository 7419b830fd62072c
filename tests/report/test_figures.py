"""Pictures of a report."""

import numpy as np

from bagwise.report.figures import course_view


def test_a_wild_start_does_not_flatten_the_course():
    settled = -40.0 - np.exp(-np.arange(40.0))
    assert course_view(settled) is not None
    low, high = course_view(np.concatenate([[-300.0, -1500.0], settled]))
    assert -42.0 < low < -40.0 < high < -39.0
    assert course_view(np.linspace(-2, -1, 20)) is None
    assert course_view(np.array([-np.inf, -3.0])) is None
    assert course_view(np.full(9, 2.0)) is None
