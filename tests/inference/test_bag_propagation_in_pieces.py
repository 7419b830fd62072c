"""One site for every piece of a negative bag: against messages to instances, against a grid, and in other orders."""

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import norm
from tests.problems import one_chunk

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.bag_propagation import BagPropagation
from bagwise.inference.chunks import PiecesOfColumn
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import iterate

CPU = torch.device("cpu")
MANY = 1_000  # pieces: every row of a negative bag is one


class Case:
    """Rows of two features, leftovers and labels."""

    def __init__(self, seed, sizes, y):
        random = np.random.default_rng(seed)
        self.sizes, self.y = sizes, y
        self.phi, self.kappa = random.normal(size=(sum(sizes), 2)), 0.5 * random.random(sum(sizes))

    def chunks(self, pieces=0):
        evidence = CountEvidence(np.array(self.y, dtype=float)[:, None], np.array(self.sizes))
        stated = ProbitCounts(evidence, pieces=pieces).chunk(slice(0, len(self.sizes)), torch.float64, CPU)
        return one_chunk(torch.tensor(self.phi), torch.tensor(self.kappa), self.sizes, stated)

    def by_bags(self, pieces):
        return settled(BagPropagation(self.chunks(pieces).through(PiecesOfColumn(0)), 2, CPU, seed=0))

    def by_messages(self):
        return settled(ExpectationPropagation(self.chunks(), 2, 1, CPU))

    def by_grid(self):
        """Log evidence and mean of v."""
        axis = np.linspace(-6, 6, 241)
        v = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        each = log_ndtr(-v @ self.phi.T / np.sqrt(1 + self.kappa))
        negative = np.add.reduceat(each, np.cumsum([0, *self.sizes[:-1]]), axis=1)
        chance = np.where(np.array(self.y) == 1, -np.expm1(negative), np.exp(negative)).prod(axis=1)
        weight = chance * norm.pdf(v).prod(axis=1) * (axis[1] - axis[0]) ** 2
        return np.log(weight.sum()), weight @ v / weight.sum()


def settled(engine):
    assert iterate(engine.step, name="log evidence", max_iter=500, tol=1e-8).converged
    engine.finish()
    return engine.log_evidence.item(), engine.belief.mean[:, 0].numpy()


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_negative_bags_have_the_sites_of_messages(seed):
    """Positive bags of one, negative ones of any size: both inferences then have a site for every row."""
    case = Case(seed, [6, 1, 9, 1, 1], [0, 1, 0, 1, 1])
    (found, mean), (expected, expected_mean) = case.by_bags(MANY), case.by_messages()
    assert found == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-4)


def test_pieces_are_nearer_to_the_exact_posterior_than_whole_bags():
    errors = []
    for seed in range(10):
        case = Case(seed, [12, 3, 15, 2, 8], [0, 1, 0, 1, 0])
        exact, exact_mean = case.by_grid()
        found = [case.by_bags(pieces) for pieces in (0, 8, MANY)]
        errors.append([(abs(value - exact), np.abs(mean - exact_mean).max()) for value, mean in found])
    whole, some, all_rows = np.mean(errors, axis=0)
    assert (all_rows < some).all()
    assert (some < whole).all()
    assert (all_rows < 0.5 * whole).all()


def test_order_of_rows_in_a_negative_bag_is_nothing_to_pieces_of_one_row():
    case, turned = (Case(0, [6, 2, 9, 3], [0, 1, 0, 1]) for _ in range(2))
    order = np.r_[5:-1:-1, 6:20]
    turned.phi, turned.kappa = turned.phi[order], turned.kappa[order]
    for mine, expected in zip(case.by_bags(MANY), turned.by_bags(MANY), strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-6)
