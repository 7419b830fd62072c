import numpy as np
import pytest

from bagwise.exceptions import NumericalError
from bagwise.inference.loop import Report, Watch, iterate

SETTINGS = {"name": "bound", "tol": 0.1}


def countdown():
    state = {"n": 0}

    def step():
        state["n"] += 1
        return Report(float(state["n"]), 1.0 / state["n"])

    return step, state


def test_stops_at_the_tolerance_and_remembers_the_course():
    step, state = countdown()
    trace = iterate(step, max_iter=100, **SETTINGS)
    assert trace.converged
    assert len(trace) == state["n"] == 10
    np.testing.assert_array_equal(trace.values, np.arange(1, 11))


def test_stops_at_the_budget_and_says_that_it_has_not_converged():
    trace = iterate(countdown()[0], max_iter=4, **SETTINGS)
    assert not trace.converged
    assert len(trace) == 4


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_stops_with_an_explanation(bad):
    with pytest.raises(NumericalError, match=r"became .* in iteration 1; check the scale"):
        iterate(lambda: Report(bad, 1.0), max_iter=3, **SETTINGS)


def test_the_callback_sees_every_iteration():
    seen = []
    iterate(countdown()[0], max_iter=3, watch=Watch(callback=lambda i, value: seen.append((i, value))), **SETTINGS)
    assert seen == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_interruption_keeps_what_was_done():
    step, state = countdown()

    def interrupted():
        if state["n"] == 3:
            raise KeyboardInterrupt
        return step()

    trace = iterate(interrupted, max_iter=100, **SETTINGS)
    assert trace.interrupted
    assert not trace.converged
    assert len(trace) == 3


def test_progress_is_shown_only_when_asked_for(capsys):
    iterate(countdown()[0], max_iter=3, **SETTINGS)
    assert capsys.readouterr() == ("", "")
    iterate(countdown()[0], max_iter=3, watch=Watch("a name", verbose=1), **SETTINGS)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "a name" in shown.err
