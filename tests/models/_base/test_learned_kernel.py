"""Where the search for a kernel begins."""

import numpy as np
import pytest
from tests.models._base.small_models import bag_gp

from bagwise import Bags


def test_a_kernel_that_is_not_learned_has_variance_one(problem):
    bags, y = problem
    model = bag_gp(ard=True).fit(bags, y)
    mean, variance = model.predict_latent(Bags(np.full((1, 2), 1e6), [0]))
    assert variance[0] == pytest.approx(1.0 + model.features_.bias**2 * _spread_of_constant(model))
    assert mean[0] == pytest.approx(model.mean_)


def _spread_of_constant(model):
    factor = model.posterior_.factors[0].numpy()
    return np.linalg.inv(factor @ factor.T)[-1, -1]
