"""What the features leave over, shared inside a bag: a factorisation of the conditional kernel of every bag."""

import numpy as np
import pytest
import torch
from tests.problems import features_of, random_bags

from bagwise.gp import kernels
from bagwise.gp.leftovers import share_leftover


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_leftovers_of_a_bag_have_the_covariance_that_the_features_leave(kernel):
    """C − UUᵀ is positive semi-definite with the diagonal d, so no entry exceeds √(dᵢ dⱼ)."""
    bags = random_bags(np.random.default_rng(0), n_bags=8, sizes=(1, 12))
    features = features_of(bags, kernel=kernel, n_inducing=3)
    ((_, design),) = features.designs(bags)
    x = features.standardised(bags.X)
    found = share_leftover(features.kernel, x, design.phi, design.kappa, design.segments, torch.ones(len(x)))
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        own, phi, rest = x[start:stop], design.phi[start:stop], found.rest[start:stop]
        left = kernels.gram(features.kernel, own).detach() - phi @ phi.T
        unexplained = left - found.shared[start:stop] @ found.shared[start:stop].T
        torch.testing.assert_close(unexplained.diagonal(), rest, rtol=0, atol=2e-6)
        assert bool((unexplained.abs() <= (rest[:, None] * rest).sqrt() + 2e-6).all())
        enough = 0.01 * design.kappa[start:stop].sum() + 1e-5 if stop - start > 1 else design.kappa[start]
        assert float(rest.sum()) <= float(enough)


def test_a_bag_of_one_shares_nothing():
    bags = random_bags(np.random.default_rng(1), n_bags=5, sizes=(1, 1))
    features = features_of(bags, n_inducing=2)
    ((_, design),) = features.designs(bags)
    x = features.standardised(bags.X)
    found = share_leftover(features.kernel, x, design.phi, design.kappa, design.segments, torch.ones(5))
    assert found.shared.shape == (5, 0)
    assert torch.equal(found.rest, design.kappa)
