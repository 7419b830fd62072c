"""What the features leave over, shared inside a bag: a factorisation of the conditional kernel of every bag."""

import numpy as np
import torch
from tests.problems import features_of, random_bags

from bagwise.gp.leftovers import share_leftover


def test_a_bag_of_one_shares_nothing():
    bags = random_bags(np.random.default_rng(1), n_bags=5, sizes=(1, 1))
    features = features_of(bags, n_inducing=2)
    ((_, design),) = features.designs(bags)
    x = features.standardised(bags.X)
    found = share_leftover(features.kernel, x, design.phi, design.kappa, design.segments, torch.ones(5))
    assert found.shared.shape == (5, 0)
    assert torch.equal(found.rest, design.kappa)
