"""The Beta density of a stated fraction keeps its digits from no confidence to one that nobody has."""

import mpmath
import numpy as np
import pytest
from scipy.stats import beta

from bagwise.evidence.statements import log_beta_density

CONFIDENCES = [1e-6, 1.0, 7.5, 1e2, 1e4, 1e7, 1e12, 1e18]


def by_digits(m, share, confidence):
    with mpmath.workdps(80):
        m, s, x = (mpmath.mpf(float(part)) for part in (m, share, confidence))
        a, b = x * s, x * (1 - s)
        normaliser = mpmath.loggamma(a + 1) + mpmath.loggamma(b + 1) - mpmath.loggamma(x + 2)
        return float(a * mpmath.log(m) + b * mpmath.log(1 - m) - normaliser)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("share", [0.0, 1 / 1024, 0.25, 0.3, 0.5, 0.875, 1.0])
@pytest.mark.parametrize("m", [0.25, 0.3, 0.5, 0.9])
def test_log_beta_density_equals_eighty_digits(confidence, share, m):
    found = float(log_beta_density(*np.array([m, share, confidence])))
    assert found == pytest.approx(by_digits(m, share, confidence), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_log_beta_density_keeps_its_digits_where_fraction_and_share_almost_agree(confidence):
    for away in (0.0, 1e-9, 1e-4, 2.9e-3, 3.1e-3, 1e-2):
        found = float(log_beta_density(*np.array([0.3 + away, 0.3, confidence])))
        assert found == pytest.approx(by_digits(0.3 + away, 0.3, confidence), rel=1e-10, abs=1e-6)  # nats


def test_log_beta_density_equals_scipy_at_ordinary_confidences():
    m, share = np.meshgrid(np.linspace(0.01, 0.99, 13), np.linspace(0, 1, 11))
    for confidence in (1.0, 30.0, 1000.0):
        expected = beta.logpdf(m, confidence * share + 1, confidence * (1 - share) + 1)
        found = log_beta_density(m, share, np.full_like(m, confidence))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("m", "only"), [(0.0, 0.0), (1.0, 1.0)])
def test_certain_fraction_has_density_at_its_own_share_only(m, only):
    share = np.linspace(0, 1, 6)
    found = log_beta_density(np.full(6, m), share, np.full(6, 50.0))
    assert np.array_equal(np.isfinite(found), share == only)
    assert found[share == only] == pytest.approx(np.log(51.0))
