"""Judges of kernels when bags have weights: whole numbers are repeated bags, and gradients are those of the value."""

import copy

import numpy as np
import pytest
import torch
from tests.problems import features_of, random_bags, random_labels

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.gp import kernels
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning import by_bags
from bagwise.inference.kernel_learning import by_messages as messages
from bagwise.inference.kernel_learning.by_bags import ByBags
from bagwise.inference.kernel_learning.by_messages import ByMessages
from bagwise.inference.kernel_learning.judges import _moments
from bagwise.inference.kernel_learning.rows import LearningRows, RowsHere
from bagwise.inference.kernel_learning.search import differentiated

WEIGHTS = np.array([1, 3, 2, 0, 1, 2, 1, 1.0])
TIMES = np.repeat(np.arange(8), WEIGHTS.astype(int))
FRACTIONS = np.array([0.6, 1.4, 0.7, 1.0, 2.5, 0.8, 0.9, 1.1])
STEP = 1e-4
JUDGES = {
    "sites": lambda rows, ceiling: ByBags(rows, ceiling, 5),
    "messages": ByMessages,
    "moments": lambda rows, ceiling: differentiated(_moments(rows)),
}


@pytest.fixture(autouse=True)
def _accurate(monkeypatch):
    for name, value in {"TOLERANCE": 1e-10, "ROUNDS": 1000, "_ADJOINT_TOLERANCE": 1e-9}.items():
        monkeypatch.setattr(by_bags, name, value)
    monkeypatch.setattr(messages, "SWEEPS", 5000)
    monkeypatch.setattr(ByMessages.__init__, "__defaults__", (1e-11,))


class Judged:
    """Some of the same bags with some weights, under a kernel of their own."""

    def __init__(self, kind, chosen=slice(None), weight=None, tabled=False):
        rng = np.random.default_rng(1)
        bags = random_bags(rng, 8, (1, 5))
        y = random_labels(rng, bags)[:, None]
        features = features_of(bags, kernel=kernels.trainable_kernel("rbf", 2, None, 2.0, False), lengthscale=None)
        sizes = bags.sizes
        table = np.concatenate([np.linspace(0.0, -2.0, size + 1) for size in sizes])
        speaks = np.arange(8) % 3 == 0
        told = (np.where(speaks[:, None], np.nan, y), sizes, (table,), (speaks,)) if tabled else (y, sizes)
        evidence = CountEvidence(*told).of_bags(np.arange(8)[chosen]).weighted(weight)
        kernel = copy.deepcopy(features.kernel)
        rows_of = RowsHere if kind == "moments" else LearningRows
        rows = rows_of(features, kernel, features.inducing.clone(), bags[chosen], ProbitCounts(evidence))
        self.parameters = KernelParameters(kernel, 2)
        self.judge = JUDGES[kind](rows, torch.as_tensor(evidence.ceiling()))

    def look(self):
        self.parameters.clear()
        return self.judge(), self.parameters.gradient()


@pytest.mark.parametrize(
    ("kind", "tabled"),
    [("sites", False), ("messages", False), ("messages", True), ("moments", False), ("moments", True)],
)
def test_judge_of_weighted_bags_is_that_of_repeated_ones(kind, tabled):
    value, gradient = Judged(kind, weight=WEIGHTS, tabled=tabled).look()
    again, expected = Judged(kind, TIMES, tabled=tabled).look()
    np.testing.assert_allclose(value, again, rtol=1e-7)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["messages", "moments", pytest.param("sites", marks=pytest.mark.statistical)])
def test_gradient_under_fractional_weights_is_that_of_the_value(kind):
    case = Judged(kind, weight=FRACTIONS)
    _, gradient = case.look()
    centre = case.parameters.get()
    for place in range(len(centre)):
        ends = []
        for sign in (1.0, -1.0):
            case.parameters.set(centre + sign * STEP * (np.arange(len(centre)) == place))
            ends.append(case.look()[0])
        np.testing.assert_allclose(gradient[place], (ends[0] - ends[1]) / (2 * STEP), rtol=2e-3, atol=1e-5)
