"""Monte Carlo errors of predictions from draws that are independent: their spread over the root of their number."""

import numpy as np
import torch
from tests.problems import features_of, random_bags

from bagwise.bag_models.rules import AtLeastOne
from bagwise.gp.posterior import SamplePosterior
from bagwise.inference.chains.prediction_error import prediction_error
from bagwise.predict.points import Fitted

CHAINS, DRAWS, WEIGHTS = 4, 400, 5


def test_errors_of_independent_draws_are_their_spread_over_the_root_of_their_number():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=6)
    weights = torch.tensor(rng.normal(size=(1, CHAINS, DRAWS, WEIGHTS)))
    factor = 1e3 * torch.eye(WEIGHTS, dtype=torch.float64)  # so that v and its expectation are one
    posterior = SamplePosterior(weights, weights, factor[None], torch.zeros(1, dtype=torch.int64))
    fitted = Fitted(features_of(bags, n_inducing=WEIGHTS), posterior, AtLeastOne(shares=False), 0)
    found = prediction_error(fitted, bags)
    (latent,) = fitted.latent(bags)
    given_draws = -torch.expm1(fitted.rule.log_negative(latent, 0)).numpy()
    np.testing.assert_allclose(found.bags[:, 0], given_draws.std(axis=1) / np.sqrt(CHAINS * DRAWS), rtol=0.3)
    each = posterior.conditional_probability(latent.design.phi, latent.design.kappa, 0).reshape(bags.n_instances, -1)
    np.testing.assert_allclose(found.instances[:, 0], each.std(1) / np.sqrt(CHAINS * DRAWS), rtol=0.3)
