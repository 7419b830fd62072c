"""Rules as they answer for a fitted model: right given all draws and under each, whatever else is asked."""

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm
from tests.problems import features_of, random_bags, segments_of

from bagwise import Bags
from bagwise.bag_models.rules import AtLeastOne, SoftMax, StrongestInstance, Witness, controlled
from bagwise.gp import kernels
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import LOGISTIC, PROBIT
from bagwise.predict.bags import bag_probability, instance_probability
from bagwise.predict.points import Fitted

RULES = {
    "at least one": AtLeastOne(),
    "at least one, alone": AtLeastOne(shares=False),
    "sum": SoftMax("sum", 2.0),
    "mean": SoftMax("mean", 1.0),
    "witness": Witness(3.0),
    "hard witness": Witness(None),
}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


def fitted_model(rule, *, link=PROBIT, n_inducing=4, lengthscale=0.7, seed=0, points_seed=0):
    """Few inducing inputs, so that much is left over."""
    rng = np.random.default_rng(seed)
    features = features_of(random_bags(rng, n_bags=20), n_inducing=n_inducing, lengthscale=lengthscale)
    root = rng.normal(size=(n_inducing, n_inducing))
    factor = torch.linalg.cholesky(torch.tensor(0.3 * root @ root.T) + torch.eye(n_inducing))
    mean = torch.tensor(rng.normal(size=(n_inducing, 1)) - 0.5)
    posterior = GaussianPosterior(mean, factor[None], torch.zeros(1, dtype=torch.int64), link)
    return Fitted(features, posterior, rule, points_seed)


def joint_moments(fitted, bag):
    """Mean and covariance of f in one bag, the leftovers as the kernel has them or each alone."""
    phi, kappa = fitted.features.transform(bag)
    half = np.linalg.solve(fitted.posterior.factors[0].numpy(), phi.T)
    x = fitted.features.standardised(bag.X)
    left = kernels.gram(fitted.features.kernel, x).detach().numpy() - phi @ phi.T
    left = left if fitted.rule.shares else np.diag(kappa)
    return phi @ fitted.posterior.mean[:, 0].numpy(), half.T @ half + left


@each_rule
@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=["probit", "logistic"])
def test_probability_is_the_average_of_what_the_draws_say(rule, link):
    """Soft maxima follow their leftovers to first order only, so little is left over there."""
    bags = random_bags(np.random.default_rng(1), n_bags=15)
    fitted = fitted_model(rule, link=link, lengthscale=5.0 if isinstance(rule, SoftMax) else 0.7)
    (latent,) = fitted.latent(bags)
    given_draws = -torch.expm1(rule.log_negative(latent, 0)).mean(1).numpy()
    np.testing.assert_allclose(given_draws, bag_probability(fitted, bags)[:, 0], atol=0.02)


@each_rule
def test_answers_for_bags_of_any_size_do_not_depend_on_their_company(rule):
    """Above 64 instances the noise of single instances is no longer quasi-random, but drawn."""
    rng = np.random.default_rng(2)
    sizes = [100, 3, 140]
    bags = Bags(rng.normal(size=(sum(sizes), 2)), np.repeat(np.arange(3), sizes))
    fitted = fitted_model(rule)
    alone = np.concatenate([bag_probability(fitted, bags[[number]]) for number in range(3)])
    np.testing.assert_allclose(bag_probability(fitted, bags), alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shares", [True, False])
def test_at_least_one_is_the_multivariate_normal_probability(shares):
    bag = Bags(np.random.default_rng(3).normal(size=(5, 2)), np.zeros(5))
    found = []
    for seed in range(8):
        fitted = fitted_model(AtLeastOne(shares=shares), points_seed=seed)
        found.append(bag_probability(fitted, bag)[0, 0])
    mean, covariance = joint_moments(fitted, bag)
    settings = {"abseps": 1e-6, "releps": 1e-6}
    exact = 1.0 - multivariate_normal.cdf(np.zeros(5), mean, covariance + np.eye(5), **settings)
    assert np.sqrt(np.mean(np.square(np.array(found) - exact))) < 1e-3


def test_control_variates_take_back_what_the_draws_are_off():
    """What is a straight line in the controls is found exactly, however far the draws are from what is expected."""
    controls = np.random.default_rng(8).normal(loc=0.5, size=(2, 40))
    series = torch.tensor(np.stack([2.0 + 3.0 * controls[0] - controls[1], *controls]))[None]
    expected = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    found = controlled(series.mean(2), series @ series.mT / 40, expected)
    assert float(found) == pytest.approx(2.0, abs=1e-4)


def test_at_least_one_never_contradicts_the_instances():
    bags = random_bags(np.random.default_rng(4), n_bags=200)
    fitted = fitted_model(AtLeastOne(), n_inducing=20)
    each = instance_probability(fitted.features, fitted.posterior, bags)[:, 0]
    together = bag_probability(fitted, bags)[:, 0]
    assert (together >= np.maximum.reduceat(each, bags.offsets[:-1])).all()
    assert (together <= np.add.reduceat(each, bags.offsets[:-1])).all()


@each_rule
@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=["probit", "logistic"])
def test_a_bag_of_one_is_as_probable_as_its_instance(rule, link):
    bags = random_bags(np.random.default_rng(5), n_bags=6, sizes=(1, 1))
    fitted = fitted_model(rule, link=link)
    expected = instance_probability(fitted.features, fitted.posterior, bags)
    np.testing.assert_allclose(bag_probability(fitted, bags), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shares", [True, False])
def test_witnesses_are_weighed_with_all_that_their_instances_share(shares):
    fitted = fitted_model(Witness(0.5, shares=shares))
    bag = Bags(np.random.default_rng(6).normal(size=(4, 2)), np.zeros(4))
    mean, covariance = joint_moments(fitted, bag)
    weights = np.exp(0.5 * mean) / np.exp(0.5 * mean).sum()
    score = weights @ mean / np.sqrt(1.0 + weights @ covariance @ weights)
    assert bag_probability(fitted, bag)[0, 0] == pytest.approx(norm.cdf(score), abs=2e-3)


def test_copies_of_an_instance_share_their_score():
    (latent,) = fitted_model(AtLeastOne()).latent(random_bags(np.random.default_rng(7), n_bags=2))
    (_, scores), *_ = latent.scores(0)
    one, three = latent.expected_copies(torch.tensor([0]), torch.tensor([3.0]), 0)[0].tolist()
    negative = np.exp(log_ndtr(-scores[0].numpy()))
    assert one == pytest.approx(1.0 - negative.mean(), abs=5e-3)
    assert three == pytest.approx(1.0 - (negative**3).mean(), abs=5e-3)


def test_the_class_of_no_class_is_left_out_of_the_classes_of_a_bag():
    theta = torch.tensor([[0.2, 0.1, 0.7], [0.1, 0.3, 0.6]], dtype=torch.float64)
    found = StrongestInstance(none=True).probability(theta, segments_of([2]))
    np.testing.assert_allclose(found, [[0.4, 0.6]])
