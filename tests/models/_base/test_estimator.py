"""What all estimators share: order of classes, decisions, scores, sizes of bags, seeds; and how BagGP reads y."""

import numpy as np
import pytest
from tests.problems import random_bags, random_labels

from bagwise import BagDataWarning, BagGP, Bags, MILGPProbit
from bagwise.exceptions import ConvergenceWarning


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=24, sizes=(2, 5))
    return bags, random_labels(rng, bags)


def probit(**settings):
    return MILGPProbit(**({"n_inducing": 6, "max_iter": 5, "bias": 2.0, "random_state": 0} | settings))


def bag_gp(**settings):
    return BagGP(**({"n_inducing": 6, "learn": False, "size_effect": False, "random_state": 0} | settings))


@pytest.fixture(scope="module")
def fitted(problem):
    return probit().fit(*problem)


def test_the_second_class_is_the_positive_one(problem):
    bags, y = problem
    words = np.where(y == 1, "sick", "healthy")
    model = probit().fit(bags, words)
    assert model.classes_.tolist() == ["healthy", "sick"]
    found = model.predict_proba(bags)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found[y == 1, 1].mean() > found[y == 0, 1].mean()
    assert (model.predict(bags) == np.where(found[:, 1] > 0.5, "sick", "healthy")).all()


def test_labels_in_columns_are_decided_at_one_half(problem):
    bags, y = problem
    model = probit().fit(bags, np.column_stack([y, 1 - y]))
    found = model.predict_proba(bags)
    assert ((found > 0.34) & (found < 0.5)).any()  # or the border would not be seen
    np.testing.assert_array_equal(model.predict(bags), found > 0.5)


def test_scores_leave_out_missing_labels_and_follow_the_weights(problem, fitted):
    bags, y = problem
    right = fitted.predict(bags) == y
    assert 0 < right.sum() < len(y)
    half = np.where(np.arange(len(y)) % 2, y, np.nan)
    assert fitted.score(bags, half) == pytest.approx(right[1::2].mean())
    weights = np.where(right, 3.0, 1.0)
    assert fitted.score(bags, y, sample_weight=weights) == pytest.approx(np.average(right, weights=weights))


def test_the_mean_is_the_constant_in_units_of_the_latent_function(problem, fitted):
    far = Bags(np.full((1, 2), 1e6), [0])
    assert fitted.mean_ == pytest.approx(fitted.predict_latent(far)[0][0])


def test_bags_far_larger_than_any_seen_are_doubted(problem, fitted):
    bags, _ = problem
    largest = int(bags.sizes.max())
    assert fitted.sizes_seen_ == (int(bags.sizes.min()), largest)
    fitted.predict_proba(Bags(np.zeros((4 * largest, 2)), np.zeros(4 * largest)))
    with pytest.warns(BagDataWarning, match="sizes far from those of the fit"):
        fitted.predict_proba(Bags(np.zeros((4 * largest + 1, 2)), np.zeros(4 * largest + 1)))


def test_the_random_state_decides_about_the_points_of_answers(problem):
    seeds = [probit(random_state=state).fit(*problem).seed_ for state in (0, 0, 1)]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize("noise", ["exact", "published"])
def test_chains_of_exact_noise_count_what_the_features_leave_over(problem, noise):
    chains = {"inference": "gibbs", "n_chains": 2, "n_burn_in": 1, "n_samples": 4}
    with pytest.warns(ConvergenceWarning):
        model = probit(n_inducing=3, noise=noise, **chains).fit(*problem)
    phi, kappa = model.features_.transform(problem[0])
    assert kappa.mean() > 0.1
    weights = 1.0 / (1.0 + kappa) if noise == "exact" else np.ones_like(kappa)
    precision = np.eye(phi.shape[1]) + phi.T @ (weights[:, None] * phi)
    factor = model.posterior_.factors[0].numpy()
    np.testing.assert_allclose(factor @ factor.T, precision, rtol=1e-9)


# ---------------------------------------------------------------- counts


def test_fractions_come_with_an_interval_around_the_expectation(problem):
    bags, y = problem
    model = bag_gp().fit(bags, y)
    found = model.predict_fraction(bags, level=0.9)
    each = model.predict_instance_proba(bags)[:, 1]
    np.testing.assert_allclose(found.mean, np.add.reduceat(each, bags.offsets[:-1]) / bags.sizes)
    assert (found.lower <= found.upper).all()
    assert (found.upper > found.lower).any()


def test_bags_that_may_or_may_not_hold_a_positive_do_not_count_in_scores(problem):
    bags, y = problem
    model = bag_gp(evidence="count").fit(bags, np.column_stack([y, np.where(y == 1, bags.sizes, 0)]))
    sure = np.column_stack([model.predict(bags), np.where(model.predict(bags) == 1, bags.sizes, 0)])
    unsure = sure.copy()
    unsure[::2] = [0, 1]
    assert model.score(bags, sure) == model.score(bags, unsure) == 1.0


def test_less_trust_in_labels_moves_probabilities_less():
    bags = random_bags(np.random.default_rng(2), n_bags=30, sizes=(1, 1))
    models = [bag_gp(label_noise=noise).fit(bags, (bags.X[:, 0] > 0).astype(float)) for noise in (0.0, 0.4)]
    sure, unsure = (model.predict_proba(bags)[:, 1] for model in models)
    assert np.ptp(unsure) < 0.9 * np.ptp(sure)


def test_less_confidence_in_fractions_moves_expectations_less(problem):
    bags, y = problem
    spreads = []
    for confidence in (1.0, 1000.0):
        model = bag_gp(evidence="fraction", confidence=confidence).fit(bags, 0.2 + 0.6 * y)
        spreads.append(np.ptp(model.predict_fraction(bags).mean))
    assert spreads[0] < 0.9 * spreads[1]


def test_the_effect_of_size_is_what_log_n_does_to_the_latent_function():
    rng = np.random.default_rng(3)
    bags = random_bags(rng, n_bags=40, sizes=(2, 12))
    model = bag_gp(size_effect=True).fit(bags, (bags.sizes > 6).astype(float))
    effect = model.size_effect_
    row = np.zeros((1, 2))
    sizes = (int(bags.sizes.min()), int(bags.sizes.max()))
    latent = [model.predict_latent(Bags(np.repeat(row, n, axis=0), np.zeros(n)))[0][0] for n in sizes]
    assert effect.mean == pytest.approx((latent[1] - latent[0]) / np.log(sizes[1] / sizes[0]))
    column = model.features_.n_inducing
    covariance = np.linalg.inv(model.posterior_.factors[0].numpy() @ model.posterior_.factors[0].numpy().T)
    assert effect[1] == pytest.approx(np.sqrt(covariance[column, column]))


def test_a_kernel_that_is_not_learned_has_variance_one(problem):
    bags, y = problem
    model = bag_gp(ard=True).fit(bags, y)
    mean, variance = model.predict_latent(Bags(np.full((1, 2), 1e6), [0]))
    assert variance[0] == pytest.approx(1.0 + model.features_.bias**2 * _spread_of_constant(model))
    assert mean[0] == pytest.approx(model.mean_)


def _spread_of_constant(model):
    factor = model.posterior_.factors[0].numpy()
    return np.linalg.inv(factor @ factor.T)[-1, -1]
