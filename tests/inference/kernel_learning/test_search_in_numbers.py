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


def test_the_best_point_seen_is_kept_however_the_search_ends():
    """The gradient leads away from the start, where the evidence is highest."""
    block, seen = Numbers([0.0]), []

    def liar():
        block.slope = np.array([1.0])
        seen.append(float(block.values[0]))
        return -abs(block.values[0])

    search(block, liar)
    assert len(seen) > 1
    assert block.values == pytest.approx([0.0])


def test_restarts_begin_at_draws_of_the_prior():
    """Two hills; the higher one can only be reached from a draw of a wide prior."""
    block = Numbers([-3.0], spread=10.0)

    def two_hills():
        x = block.values[0]
        low, high = math.exp(-0.5 * (x + 3.0) ** 2), 50.0 * math.exp(-0.5 * ((x - 10.0) / 4.0) ** 2)
        block.slope = np.array([-(x + 3.0) * low - (x - 10.0) / 16.0 * high])
        return low + high

    search(block, two_hills, n_restarts=8)
    assert block.values == pytest.approx([10.0], abs=0.5)


def test_a_search_that_could_be_evaluated_nowhere_has_not_converged():
    block = Numbers([1.0])

    def nowhere():
        raise NumericalError("not here")

    trace = search(block, nowhere)
    assert not trace.converged
    assert block.values == pytest.approx([1.0])
