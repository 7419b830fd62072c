"""Figures on the pages that are cheap to measure again, by the commands that stand beside them."""

import warnings

import numpy as np
import pytest
import torch

from bagwise import GPMIL, LMVGPMIL, VGPMIL, BagGP
from bagwise.bag_models.soft_max import BagLosses, Pooling, SoftMaxLoss
from bagwise.datasets import make_bags
from bagwise.exceptions import ConvergenceWarning
from bagwise.inference.laplace.mode import FLOOR, precision
from bagwise.metrics import log_likelihood
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


@pytest.mark.parametrize(
    ("bag_size", "seed", "smallest", "gap"),
    [
        *(((20, 40), 0, 0.41, 0.10), ((20, 40), 1, 0.53, 0.0), ((20, 40), 2, 0.22, 0.41)),
        *((10, 0, 0.76, 0.0), (10, 1, 0.70, 0.0), (10, 2, 0.81, 0.0)),
    ],
)
def test_theory_gpmil_says_how_far_the_floor_of_the_eigenvalues_moves_the_evidence(bag_size, seed, smallest, gap):
    bags, y, _ = make_bags(60, bag_size, random_state=seed)
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


def test_guide_to_labels_says_what_a_guess_of_wrong_labels_is_worth():
    found = np.empty((5, 3))
    for seed in range(5):
        bags, y, _ = make_bags(80, (5, 9), random_state=seed)
        new, new_y, _ = make_bags(100, (5, 9), random_state=100 + seed)
        flipped = np.where(np.random.default_rng(seed).random(80) < 0.15, 1 - y, y)
        models = [BagGP(label_noise=share, random_state=0).fit(bags, flipped) for share in (0.0, 0.05, 0.15)]
        found[seed] = [log_likelihood(new_y, model.predict_proba(new)[:, 1]) for model in models]
    assert found.mean(axis=0) == pytest.approx([-0.37, -0.33, -0.29], abs=0.02)
    assert (found[:, 0] < found[:, 1]).all()


def test_guide_to_logistic_models_says_what_a_constant_is_worth():
    bags, y, _ = make_bags(80, (26, 89), random_state=0)
    new, new_y, _ = make_bags(100, (26, 89), random_state=1)
    published, default = VGPMIL.published(random_state=0), VGPMIL(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 25 iterations are the published number
        published.fit(bags, y)
    assert (published.predict(new) == 1).all()
    found = [log_likelihood(new_y, model.predict_proba(new)[:, 1]) for model in (published, default.fit(bags, y))]
    assert found == pytest.approx([-7.5, -0.61], rel=0.02)
