"""With Z = X and bags of one the model is an exact Gaussian process probit classifier."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import norm

from bagwise import Bags, MILGPProbit


def exact_probit_vi(X, y, lengthscale, iterations):
    """Variational probit GP (Girolami & Rogers) in function space: q(f) q(m), no inducing points, no whitening.

    q(m_i) is N(f̄_i, 1) cut at zero on the side of its label; q(f) = N(K (K + I)⁻¹ E[m], K − K (K + I)⁻¹ K).
    """
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean") / lengthscale**2)
    gain = K @ np.linalg.inv(K + np.eye(len(X)))
    sign = 2 * y - 1
    f = np.zeros(len(X))
    for _ in range(iterations):
        f = gain @ (f + sign * norm.pdf(f) / norm.cdf(sign * f))
    covariance = K - gain @ K
    bound = (
        norm.logcdf(sign * f).sum()
        - 0.5 * np.linalg.slogdet(np.eye(len(X)) + K)[1]
        - 0.5 * f @ np.linalg.solve(K + 1e-10 * np.eye(len(X)), f)
    )
    return K, f, covariance, bound


@pytest.mark.parametrize("max_iter", [5000, None])
def test_bags_of_one_with_all_inducing_points_equal_the_exact_classifier(max_iter):
    rng = np.random.default_rng(0)
    X, test = rng.normal(size=(40, 3)), rng.normal(size=(15, 3))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=40) > 0).astype(int)
    K, f, covariance, bound = exact_probit_vi(X, y, 0.8, 5000)
    model = MILGPProbit(
        n_inducing=None, max_iter=max_iter, tol=1e-12, bias=0.0, lengthscale=0.8, standardize=False, jitter=1e-10
    ).fit(X, y)
    mean, variance = model.predict_latent(X)
    np.testing.assert_allclose(mean, f, atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(covariance), atol=1e-6)
    assert model.log_evidence_ == pytest.approx(bound, abs=1e-6)
    cross = np.exp(-0.5 * cdist(test, X, "sqeuclidean") / 0.8**2)
    new_mean = cross @ np.linalg.solve(K + 1e-10 * np.eye(40), f)
    new_variance = 1 - np.einsum("ij,ij->i", cross @ np.linalg.inv(K + np.eye(40)), cross)
    expected = norm.cdf(new_mean / np.sqrt(1 + new_variance))
    np.testing.assert_allclose(model.predict_instance_proba(test)[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(test)[:, 1], expected, atol=1e-6)


def test_order_of_bags_at_fit_does_not_matter_with_given_inducing_inputs():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, 25)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(25), sizes))
    y = rng.integers(0, 2, 25)
    order = rng.permutation(25)
    settings = {"inducing": rng.normal(size=(7, 2)), "max_iter": None, "tol": 1e-10, "random_state": 0}
    first = MILGPProbit(**settings).fit(bags, y)
    second = MILGPProbit(**settings).fit(bags[order], y[order])
    np.testing.assert_allclose(second.predict_proba(bags), first.predict_proba(bags), atol=1e-8)
    np.testing.assert_allclose(second.predict_instance_proba(bags), first.predict_instance_proba(bags), atol=1e-8)
