"""Steps grow where an iteration drifts, shrink where it turns back, and shrink for good where it goes round."""

import numpy as np
import pytest

from bagwise.inference.stride import Stride


def steps_until_rest(matrix, stride, most=2000, tol=1e-8):
    """Steps x ← x + L (Mx − x) from a fixed start until what is left is small."""
    x, last = np.ones(len(matrix)), np.zeros(len(matrix))
    for step in range(most):
        move = matrix @ x - x
        residual = float(np.abs(move).max())
        if residual < tol:
            return step
        stride.adapt(float(move @ last), float(move @ move))
        x, last = x + stride.length * move, move
    return most


def fixed(length):
    stride = Stride(length)
    stride.adapt = lambda *seen: None
    return stride


@pytest.mark.parametrize("factor", [0.9, 0.97])
def test_slow_drift_takes_fewer_steps_than_with_steps_of_one_half(factor):
    matrix = np.diag([factor, 0.2])
    assert 2 * steps_until_rest(matrix, Stride()) < steps_until_rest(matrix, fixed(0.5))


def test_what_turns_back_at_every_step_comes_to_rest_in_shorter_steps():
    matrix = np.diag([-4.0, 0.3])
    assert steps_until_rest(matrix, fixed(0.5), most=100) == 100
    assert steps_until_rest(matrix, Stride()) < 200


def test_drift_and_turning_back_side_by_side_come_to_rest():
    assert steps_until_rest(np.diag([-2.0, 0.9]), Stride()) < 300


def test_what_goes_round_in_small_angles_comes_to_rest_in_steps_that_stay_short():
    """Eigenvalues ±2i: steps above 2/5 spiral outwards, though two moves in a row hardly ever turn back."""
    stride = Stride()
    assert steps_until_rest(np.array([[0.0, -2.0], [2.0, 0.0]]), stride) < 500
    assert stride.length < 0.4


def test_first_move_says_nothing_about_the_length():
    stride = Stride(0.8)
    stride.adapt(0.0, 4.0)
    assert stride.length == 0.8
