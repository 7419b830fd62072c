"""Instance and bag probabilities against Monte Carlo and SciPy's multivariate normal."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm
from tests.problems import features_of, leftover_covariance, random_bags, random_labels
from tests.sources.stored_rows import Source

from bagwise import Bags, MILGPProbit
from bagwise.bag_models.rules import AtLeastOne
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import PROBIT
from bagwise.predict.bags import bag_probability, instance_probability, latent_moments
from bagwise.predict.points import Fitted, sobol_normals


def some_posterior(rng, size, columns=1):
    root = rng.normal(size=(columns, size, size))
    factors = torch.linalg.cholesky(torch.tensor(0.3 * root @ root.transpose(0, 2, 1)) + torch.eye(size))
    return GaussianPosterior(torch.tensor(rng.normal(size=(size, columns))), factors, torch.arange(columns), PROBIT)


def covariance(posterior, column=0):
    return torch.cholesky_inverse(posterior.factors[posterior.factor_of[column]]).numpy()


def test_instance_probability_equals_monte_carlo():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=4)
    features, draws = features_of(bags, n_inducing=5), 400_000
    posterior = some_posterior(rng, 5)
    phi, kappa = features.transform(bags)
    v = rng.multivariate_normal(posterior.mean[:, 0].numpy(), covariance(posterior), draws)
    for i in range(len(phi)):
        m = v @ phi[i] + np.sqrt(kappa[i]) * rng.normal(size=draws) + rng.normal(size=draws)
        share = (m > 0).mean()
        error = 4 * np.sqrt(0.25 / draws)
        assert instance_probability(features, posterior, bags)[i, 0] == pytest.approx(share, abs=error)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("size", range(1, 7))
def test_bag_probability_equals_the_multivariate_normal_cdf(size, shares):
    rng = np.random.default_rng(size)
    training = random_bags(rng, n_bags=20)
    features = features_of(training, n_inducing=10)
    posterior = some_posterior(rng, 10)
    bag = Bags(rng.normal(size=(size, 2)), np.zeros(size, dtype=int))
    phi, kappa = features.transform(bag)
    left_over = leftover_covariance(features, bag) if shares else np.diag(kappa)
    spread = phi @ covariance(posterior) @ phi.T + left_over + np.eye(size)
    settings = {"abseps": 1e-6, "releps": 1e-6}
    exact = 1 - multivariate_normal.cdf(np.zeros(size), phi @ posterior.mean[:, 0].numpy(), spread, **settings)
    found = [
        bag_probability(Fitted(features, posterior, AtLeastOne(shares=shares), seed), bag)[0, 0] for seed in range(8)
    ]
    assert np.sqrt(np.mean((np.array(found) - exact) ** 2)) < 1e-3  # the law of one scrambling has tails


def test_copies_of_one_instance_share_their_latent_value():
    """Dependence matters: ten copies are far less surely positive together than ten independent instances."""
    rng = np.random.default_rng(5)
    features, posterior = features_of(random_bags(rng), n_inducing=6), some_posterior(rng, 6)
    x = rng.normal(size=(1, 2))
    one = Bags(x, [0])
    many = Bags(np.repeat(x, 10, axis=0), np.zeros(10))
    single = instance_probability(features, posterior, one)[0, 0]
    assert bag_probability(Fitted(features, posterior, AtLeastOne(), 0), one)[0, 0] == single
    assert bag_probability(Fitted(features, posterior, AtLeastOne(), 0), many)[0, 0] < 1 - (1 - single) ** 10 - 0.02


def test_a_bag_never_contradicts_its_instances():
    rng = np.random.default_rng(8)
    bags = random_bags(rng, n_bags=200)
    features, posterior = features_of(bags, n_inducing=60), some_posterior(rng, 60)
    each = instance_probability(features, posterior, bags)[:, 0]
    together = bag_probability(Fitted(features, posterior, AtLeastOne(), 0), bags)
    for b in range(len(bags)):
        mine = each[bags.offsets[b] : bags.offsets[b + 1]]
        assert mine.max() <= together[b, 0] <= min(1.0, mine.sum()) + 1e-15


def test_latent_moments_equal_the_direct_formula():
    rng = np.random.default_rng(6)
    bags = random_bags(rng)
    features, posterior = features_of(bags, bias=2.0), some_posterior(rng, 9, columns=2)
    phi, kappa = features.transform(bags)
    mean, variance = latent_moments(features, posterior, bags)
    for k in range(2):
        np.testing.assert_allclose(mean[:, k], phi @ posterior.mean[:, k].numpy(), atol=1e-12)
        expected = np.einsum("ir,rs,is->i", phi, covariance(posterior, k), phi) + kappa
        np.testing.assert_allclose(variance[:, k], expected, atol=1e-12)


def test_sobol_normals_have_the_moments_of_normals_and_follow_their_seed():
    points = sobol_normals(20, seed=1).numpy()
    assert np.isfinite(points).all()
    assert np.abs(points.mean(axis=1)).max() < 5e-3
    assert np.abs(points.std(axis=1) - 1).max() < 2e-2
    assert (points == sobol_normals.__wrapped__(20, seed=1).numpy()).all()
    assert (points != sobol_normals(20, seed=2).numpy()).any()


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(7)
    bags = random_bags(rng, n_bags=40, sizes=(1, 9), n_features=3)
    return MILGPProbit(random_state=0, bias=5.0).fit(bags, random_labels(rng, bags)), bags


def test_company_and_order_of_bags_change_no_probability(fitted):
    model, bags = fitted
    bag, instance = model.predict_proba(bags), model.predict_instance_proba(bags)
    order = np.random.default_rng(0).permutation(len(bags))
    np.testing.assert_allclose(model.predict_proba(bags[order]), bag[order], atol=1e-10)
    alone = np.concatenate([model.predict_proba(bags[b]) for b in range(len(bags))])
    np.testing.assert_allclose(alone, bag, atol=1e-10)
    one_by_one = np.concatenate([model.predict_instance_proba(bags[b]) for b in range(len(bags))])
    np.testing.assert_allclose(one_by_one, instance, atol=1e-10)


def test_order_of_instances_changes_no_probability(fitted):
    model, bags = fitted
    shuffled = np.random.default_rng(1).permutation(bags.n_instances)
    mixed = Bags(bags.X[shuffled], np.array(bags.ids)[bags.index[shuffled]])
    where = {name: number for number, name in enumerate(mixed.ids)}
    same = [where[name] for name in bags.ids]
    np.testing.assert_allclose(model.predict_proba(mixed)[same], model.predict_proba(bags), atol=1e-10)
    rows = shuffled[mixed.rows]
    np.testing.assert_allclose(
        model.predict_instance_proba(mixed), model.predict_instance_proba(bags)[rows], atol=1e-10
    )


def test_batch_size_changes_no_probability(fitted, monkeypatch):
    model, bags = fitted
    before = model.predict_proba(bags), model.predict_instance_proba(bags)
    monkeypatch.setattr("bagwise.numerics.blocks.BLOCK", 50)
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", 7)
    np.testing.assert_allclose(model.predict_proba(bags), before[0], atol=1e-10)
    np.testing.assert_allclose(model.predict_instance_proba(bags), before[1], atol=1e-10)


def test_a_surely_negative_bag_keeps_the_digits_of_its_small_probability():
    features = features_of(random_bags(np.random.default_rng(0)), n_inducing=1, bias=1.0)
    posterior = GaussianPosterior(
        torch.tensor([[0.0], [-9.0]]).double(),
        1e6 * torch.eye(2).double()[None],
        torch.zeros(1, dtype=torch.int64),
        PROBIT,
    )
    far = Bags(np.full((2, 2), 1e3), [0, 0])  # κ = 1: s = √2, f = −9
    expected = 2 * norm.cdf(-9 / np.sqrt(2))
    rule = AtLeastOne(shares=False)
    assert bag_probability(Fitted(features, posterior, rule, 0), far)[0, 0] == pytest.approx(expected, rel=1e-4)


def test_bags_and_instances_asked_together_get_what_each_gets_alone_and_rows_are_read_once():
    rng = np.random.default_rng(5)
    bags = random_bags(rng, n_bags=6)
    source = Source(bags.X)
    stored = Bags.from_source(source, bags.sizes, ids=list(bags.ids))
    model = MILGPProbit(n_inducing=5, random_state=0).fit(bags, random_labels(rng, bags))
    of_bags, of_instances = model.predict_both_proba(stored)
    assert sum(stop - start for start, stop in source.reads) == bags.n_instances
    np.testing.assert_array_equal(of_bags, model.predict_proba(bags))
    np.testing.assert_array_equal(of_instances, model.predict_instance_proba(bags))
