"""Figures on the pages of theory that are cheap to measure again, by the commands that stand beside them."""

import numpy as np
import pytest
import torch

from bagwise import GPMIL, LMVGPMIL
from bagwise.bag_models.soft_max import BagLosses, Pooling, SoftMaxLoss
from bagwise.datasets import make_bags
from bagwise.inference.laplace.mode import FLOOR, precision
from bagwise.numerics.links import LINKS
from bagwise.numerics.segments import Segments

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize(
    ("bag_size", "seed", "plain", "published"),
    [((5, 9), 0, -81, -202), ((5, 9), 1, -82, -212), (10, 0, -64, -297), (10, 1, -93, -297)],
)
def test_theory_logistic_says_where_the_objective_ends_from_either_start(bag_size, seed, plain, published):
    bags, y, _ = make_bags(80, bag_size, random_state=seed)
    for start, end in (("plain", plain), ("published", published)):
        assert LMVGPMIL(start=start, random_state=0).fit(bags, y).log_evidence_ == pytest.approx(end, abs=0.6)


@pytest.mark.parametrize(("seed", "smallest", "gap"), [(0, 0.41, 0.10), (1, 0.53, 0.0), (2, 0.22, 0.41)])
def test_theory_gpmil_says_how_far_the_floor_of_the_eigenvalues_moves_the_evidence(seed, smallest, gap):
    bags, y, _ = make_bags(60, (20, 40), random_state=seed)
    model = GPMIL("softmax", learn=False, n_inducing=100, random_state=0).fit(bags, y)
    losses = BagLosses(torch.from_numpy(y.astype(float)), LINKS["logistic"])
    loss = SoftMaxLoss(losses, Segments(torch.from_numpy(bags.offsets.copy())), Pooling())
    phi = torch.from_numpy(model.features_.transform(bags)[0])
    values = torch.linalg.eigvalsh(precision(loss, phi, phi @ model.posterior_.mean[:, 0])).numpy()
    assert values[0] == pytest.approx(smallest, abs=0.006)
    assert 0.5 * np.log(np.maximum(values, FLOOR) / values).sum() == pytest.approx(gap, abs=0.006)


@pytest.mark.parametrize(("gamma", "largest"), [(1.0, 0.07), (2.0, 1.8)])
def test_theory_gpmil_says_that_the_generalised_logistic_is_not_log_concave(gamma, largest):
    a = np.linspace(-30.0, 30.0, 60_001)
    log_odds = gamma * (np.logaddexp(0.0, gamma * (1.0 + a)) - np.logaddexp(0.0, gamma * (1.0 - a)))
    bend = np.gradient(np.gradient(-np.logaddexp(0.0, -log_odds), a), a)[5:-5]
    assert bend.max() == pytest.approx(largest, rel=0.05)
