"""What could be learned about a field, against its covariance written out."""

import numpy as np
import pytest
from tests.problems import features_of, random_bags

from bagwise.gp import features as features_module
from bagwise.gp.capacity import capacity


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0))


@pytest.mark.parametrize("bias", [0.0, 5.0])
def test_capacity_is_half_the_log_determinant_of_the_identity_and_the_covariance(bags, bias):
    features = features_of(bags, bias=bias)
    phi, kappa = features.transform(bags)
    covariance = phi @ phi.T + np.diag(kappa)
    expected = 0.5 * np.linalg.slogdet(np.eye(len(covariance)) + covariance)[1]
    assert capacity(features, bags) == pytest.approx(expected, rel=1e-10)


def test_capacity_does_not_depend_on_chunks(bags, monkeypatch):
    features = features_of(bags)
    whole = capacity(features, bags)
    monkeypatch.setattr(features_module, "chunk_rows", lambda *given: 5)
    assert len(list(features.designs(bags))) > 3
    assert capacity(features, bags) == pytest.approx(whole, rel=1e-12)


def test_smooth_field_can_do_less_than_a_rough_one(bags):
    rough, smooth = (capacity(features_of(bags, lengthscale=scale), bags) for scale in (0.3, 3.0))
    assert smooth < 0.5 * rough
