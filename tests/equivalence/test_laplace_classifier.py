"""On bags of one GPMIL is scikit-learn's Gaussian process classifier."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from bagwise import GPMIL


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, test = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0).astype(int), test


SETTINGS = {"learn": False, "bias": 0.0, "standardize": False, "lengthscale": 0.9, "jitter": 1e-10}


@pytest.mark.parametrize("approximation", ["softmax", "witness"])
def test_evidence_and_probabilities_are_those_of_scikit_learn(problem, approximation):
    X, y, test = problem
    reference = GaussianProcessClassifier(ConstantKernel(1.0) * RBF(0.9), optimizer=None).fit(X, y)
    model = GPMIL(approximation, **SETTINGS).fit(X, y)
    assert model.log_evidence_ == pytest.approx(reference.log_marginal_likelihood_value_, abs=1e-6)
    np.testing.assert_allclose(model.predict_proba(test), reference.predict_proba(test), atol=1e-2)


def test_both_approximations_agree_on_bags_of_one(problem):
    X, y, test = problem
    soft, witness = (GPMIL(name, link="probit", **SETTINGS).fit(X, y) for name in ("softmax", "witness"))
    assert soft.log_evidence_ == pytest.approx(witness.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(soft.predict_proba(test), witness.predict_proba(test), atol=1e-7)
