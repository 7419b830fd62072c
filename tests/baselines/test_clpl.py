"""The convex loss of candidates: its gradient, and its limit of a single candidate."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from bagwise.baselines.clpl import clpl_loss

RNG = np.random.default_rng(0)


def test_gradient_of_the_convex_loss_agrees_with_finite_differences():
    table = np.array([[1, 1, 0], [0, 1, 0]], dtype=bool)
    scores = RNG.normal(size=6)
    slope = approx_fprime(scores, lambda s: clpl_loss(s.reshape(2, 3), table)[0], 1e-7)
    assert np.allclose(clpl_loss(scores.reshape(2, 3), table)[1].ravel(), slope, atol=1e-5)


def test_convex_loss_of_a_single_candidate_is_one_against_all():
    table = np.array([[False, True, False]])
    value, _ = clpl_loss(np.array([[0.5, 0.2, -2.0]]), table)
    assert value == pytest.approx(0.8**2 + 1.5**2)
