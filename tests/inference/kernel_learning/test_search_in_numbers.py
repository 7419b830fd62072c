"""The search over blocks of parameters, with judges that are plain functions of numbers."""

import math

import numpy as np
import pytest

from bagwise.exceptions import NumericalError
from bagwise.inference.kernel_learning.search import EvidenceSearch
from bagwise.inference.loop import SILENT


class Numbers:
    """A vector with a Gaussian prior; a judge leaves its gradient in ``slope``."""

    def __init__(self, start, centre=0.0, spread=np.inf):
        self.values, self.slope = np.array(start, dtype=float), np.zeros(len(start))
        self.centre, self.spread = np.full(len(start), centre), np.full(len(start), spread)

    def get(self):
        return self.values

    def set(self, vector):
        self.values = vector.copy()

    def gradient(self):
        return self.slope

    def clear(self):
        self.slope = np.zeros_like(self.values)


def hill(block, top):
    """−½ (x − top)²."""

    def judge():
        away = block.values[0] - top
        block.slope = np.array([-away])
        return -0.5 * away**2

    return judge


def search(block, judge, n_restarts=1):
    return EvidenceSearch([block], judge).run(n_restarts, 50, np.random.RandomState(0), SILENT)


def test_the_best_point_balances_evidence_and_prior():
    block = Numbers([0.0], centre=1.0, spread=0.5)
    trace = search(block, hill(block, 4.0))
    assert block.values == pytest.approx([(4.0 + 4.0 * 1.0) / 5.0], abs=1e-3)
    assert trace.converged


def two_hills(block, left, right):
    """Bumps of some height and width at −10 and at 10."""

    def judge():
        x, value, slope = block.values[0], 0.0, 0.0
        for top, (height, width) in ((-10.0, left), (10.0, right)):
            bump = height * math.exp(-0.5 * ((x - top) / width) ** 2)
            value, slope = value + bump, slope - (x - top) / width**2 * bump
        block.slope = np.array([slope])
        return value

    return judge


def test_the_best_point_of_all_restarts_is_kept():
    """The search begins on the higher hill; draws of the prior lead to the lower one."""
    block = Numbers([10.0], centre=-10.0, spread=1.0)
    search(block, two_hills(block, (50.0, 4.0), (1000.0, 1.0)), n_restarts=3)
    assert block.values == pytest.approx([10.0], abs=0.1)


def test_parameters_without_a_prior_start_again_where_they_were():
    block, seen = Numbers([3.0]), []
    climb = hill(block, 5.0)

    def judge():
        seen.append(float(block.values[0]))
        return climb()

    search(block, judge, n_restarts=3)
    assert seen.count(3.0) == 3
    assert block.values[0] == pytest.approx(5.0)


def test_restarts_begin_at_draws_of_the_prior():
    """The higher hill can only be reached from a draw."""
    block = Numbers([-10.0], spread=10.0)
    search(block, two_hills(block, (1.0, 1.0), (50.0, 4.0)), n_restarts=8)
    assert block.values == pytest.approx([10.0], abs=0.5)


def test_a_search_that_could_be_evaluated_nowhere_has_not_converged():
    block = Numbers([1.0])

    def nowhere():
        raise NumericalError("not here")

    trace = search(block, nowhere)
    assert not trace.converged
    assert block.values == pytest.approx([1.0])
