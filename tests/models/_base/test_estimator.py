"""What all estimators share: order of classes, decisions, scores, sizes of bags, seeds; and how BagGP reads y."""

import numpy as np
import pytest
from tests.models._base.small_models import bag_gp, probit
from tests.problems import random_bags

from bagwise import BagDataWarning, Bags
from bagwise.exceptions import ConvergenceWarning


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


def test_less_trust_in_labels_moves_probabilities_less():
    bags = random_bags(np.random.default_rng(2), n_bags=30, sizes=(1, 1))
    models = [bag_gp(label_noise=noise).fit(bags, (bags.X[:, 0] > 0).astype(float)) for noise in (0.0, 0.4)]
    sure, unsure = (model.predict_proba(bags)[:, 1] for model in models)
    assert np.ptp(unsure) < 0.9 * np.ptp(sure)


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
