"""Rules: bag probabilities of the soft maximum and of the witness, against plain Monte Carlo and quadrature."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import norm
from tests.problems import features_of, leftover_covariance, random_bags, segments_of

from bagwise import Bags
from bagwise.bag_models.rules import SoftMax, Witness
from bagwise.bag_models.soft_max import Pooling
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import LINKS, LOGISTIC, PROBIT
from bagwise.predict.bags import bag_probability
from bagwise.predict.points import Fitted


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=10)
    features = features_of(bags, n_inducing=6, bias=1.0)
    A = torch.from_numpy(np.eye(7) + 0.3 * np.cov(rng.normal(size=(7, 30))))
    mean = torch.from_numpy(rng.normal(size=(7, 2)))
    factors = torch.stack([torch.linalg.cholesky(A), torch.linalg.cholesky(2 * A)])
    return bags, features, GaussianPosterior(mean, factors, torch.tensor([0, 1]), LOGISTIC)


def soft_max(pooling):
    return SoftMax(pooling.name, pooling.sharpness)


def joint_moments(bags, features, posterior, column, shares=True):
    phi, kappa = features.transform(bags)
    left_over = leftover_covariance(features, bags) if shares else np.diag(kappa)
    factor = posterior.factors[column].numpy()
    half = np.linalg.solve(factor, phi.T)
    return phi @ posterior.mean[:, column].numpy(), half.T @ half + left_over


@pytest.mark.parametrize("pooling", [Pooling("sum", 1.0), Pooling("mean", 1.0), Pooling("sum", 4.0)], ids=str)
def test_soft_max_probability_against_plain_monte_carlo(model, pooling):
    bags, features, posterior = model
    found = bag_probability(Fitted(features, posterior, soft_max(pooling), 7), bags)
    rng = np.random.default_rng(1)
    for column in range(2):
        mean, covariance = joint_moments(bags, features, posterior, column)
        F = rng.multivariate_normal(mean, covariance, size=100_000)
        for b in range(len(bags)):
            part = pooling.sharpness * F[:, bags.offsets[b] : bags.offsets[b + 1]]
            score = logsumexp(part, axis=1) - (np.log(part.shape[1]) if pooling.name == "mean" else 0.0)
            assert found[b, column] == pytest.approx(expit(score / pooling.sharpness).mean(), abs=4e-3)


def test_the_plug_in_is_another_number(model):
    bags, features, posterior = model
    mean, _ = joint_moments(bags, features, posterior, 0)
    plug_in = expit(np.log(np.add.reduceat(np.exp(mean), bags.offsets[:-1])))
    found = bag_probability(Fitted(features, posterior, SoftMax("sum", 1.0), 7), bags)[:, 0]
    assert np.abs(found - plug_in).max() > 0.02


def test_a_bag_of_one_is_exact_and_company_and_order_do_not_matter(model):
    bags, features, posterior = model
    single = Bags(bags.X, np.arange(bags.n_instances))
    mean, variance = (torch.from_numpy(part) for part in moments(single, features, posterior))
    exact = LOGISTIC.expected(mean, variance).numpy()
    for pooling in (Pooling("sum", 3.0), Pooling("mean", 0.5)):
        np.testing.assert_allclose(
            bag_probability(Fitted(features, posterior, soft_max(pooling), 7), single), exact, atol=1e-12
        )
        whole = bag_probability(Fitted(features, posterior, soft_max(pooling), 7), bags)
        alone = [
            bag_probability(Fitted(features, posterior, soft_max(pooling), 7), bags[b])[0] for b in range(len(bags))
        ]
        np.testing.assert_allclose(alone, whole, atol=1e-12)
        backwards = Bags(bags.X[::-1], bags.index[::-1])
        np.testing.assert_allclose(
            bag_probability(Fitted(features, posterior, soft_max(pooling), 7), backwards)[::-1], whole, atol=1e-12
        )


def moments(bags, features, posterior):
    parts = [joint_moments(bags, features, posterior, column) for column in range(2)]
    return np.stack([part[0] for part in parts], 1), np.stack([np.diag(part[1]) for part in parts], 1)


def test_with_the_sum_a_bag_is_at_least_as_probable_as_its_instances(model):
    bags, features, posterior = model
    found = bag_probability(Fitted(features, posterior, SoftMax("sum", 1.0), 7), bags)
    mean, variance = (torch.from_numpy(part) for part in moments(bags, features, posterior))
    most = segments_of(bags.sizes).max(LOGISTIC.expected(mean, variance)).numpy()
    assert (found >= most - 1e-12).all()


def averaged(link, mean, sd):
    chance = expit if link == "logistic" else norm.cdf
    return quad(lambda z: chance(mean + sd * z) * norm.pdf(z), -9, 9, epsabs=1e-12, limit=200)[0]


@pytest.mark.parametrize(("shares", "error"), [(False, 1e-9), (True, 1e-5)])  # of the factorised leftovers
@pytest.mark.parametrize("sharpness", [0.1, 10.0, None])
@pytest.mark.parametrize("link", LINKS)
def test_witness_probability_against_its_definition(model, link, sharpness, shares, error):
    bags, features, posterior = model
    posterior = GaussianPosterior(posterior.mean, posterior.factors, posterior.factor_of, LINKS[link])
    found = bag_probability(Fitted(features, posterior, Witness(sharpness, shares=shares), 7), bags)
    for column in range(2):
        mean, covariance = joint_moments(bags, features, posterior, column, shares)
        for b in range(len(bags)):
            rows = slice(bags.offsets[b], bags.offsets[b + 1])
            m = mean[rows]
            P = (m == m.max()).astype(float) if sharpness is None else np.exp(sharpness * (m - m.max()))
            P /= P.sum()
            centre, sd = P @ m, np.sqrt(P @ covariance[rows, rows] @ P)
            assert found[b, column] == pytest.approx(averaged(link, centre, sd), abs=error)


def test_expected_links_over_all_sizes_of_mean_and_variance():
    for mean in (-12.0, -1.3, 0.0, 0.4, 30.0):
        for sd in (0.0, 1e-3, 0.5, 1.0, 1.001, 3.0, 20.0, 300.0):
            m, v = torch.tensor([mean], dtype=torch.float64), torch.tensor([sd**2], dtype=torch.float64)

            def law(z, m=mean, s=sd):
                return expit(m + s * z) * norm.pdf(z)

            points = [-mean / sd] if sd > 0 and abs(mean / sd) < 9 else None
            reference = quad(law, -9, 9, points=points, epsabs=1e-13, epsrel=1e-12, limit=500)[0]
            assert float(LOGISTIC.expected(m, v)) == pytest.approx(reference, abs=1e-11)
            assert float(PROBIT.expected(m, v)) == pytest.approx(norm.cdf(mean / np.sqrt(1 + sd**2)), abs=1e-12)
