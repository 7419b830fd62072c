"""Stable primitives against high-precision arithmetic, and reductions over bags against plain loops."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch
from tests.numerics.digits import rounded

from bagwise.numerics import special
from bagwise.numerics.special import hazard, log_ndtr, log_negative_side

GRID = np.array(
    [-45.0, -40.0, -38.0, -20.0, -13.0, -8.3, -5.001, -4.999, -3.001, -2.999, -1.0, -1e-9, 0.0, 0.7, 6.0, 20.0]
)
ARITHMETIC = [(torch.float64, 1e-13), (torch.float32, 2e-5)]
kinds = pytest.mark.parametrize(("dtype", "tolerance"), ARITHMETIC, ids=["float64", "float32"])


def exact(function, values, digits=900):
    """The function in arithmetic of many digits, rounded at the very end."""
    with mpmath.workdps(digits):
        return np.array([float(function(mpmath.mpf(float(value)))) for value in np.ravel(values)])


def assert_close(found, expected, tolerance):
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=tolerance, atol=0)


# ---------------------------------------------------------------- the normal law


@kinds
def test_log_pdf_and_log_ndtr(dtype, tolerance):
    x = rounded(GRID[GRID < 12], dtype)
    assert_close(special.log_pdf(x), exact(lambda v: mpmath.log(mpmath.npdf(v)), x), tolerance)
    assert_close(special.log_ndtr(x), exact(lambda v: mpmath.log(mpmath.ncdf(v)), x), tolerance)


@kinds
def test_hazard_agrees_with_many_digits(dtype, tolerance):
    x = rounded(GRID[GRID < 12], dtype)
    assert_close(special.hazard(x), exact(lambda v: mpmath.npdf(v) / mpmath.ncdf(v), x), tolerance)


def test_hazard_follows_its_asymptote_and_never_divides_zero_by_zero():
    x = torch.tensor([-1e3, -1e6, -1e150], dtype=torch.float64)
    assert_close(special.hazard(x), (-x - 1.0 / x).numpy(), 1e-9)
    assert special.hazard(torch.tensor([50.0, 1e6], dtype=torch.float64)).tolist() == [0.0, 0.0]


def test_log_of_the_negative_side_keeps_its_digits_on_both_sides():
    z = torch.tensor([-36.0, -8.0, -0.3, 0.0, 0.4, 9.0, 36.0], dtype=torch.float64)
    assert_close(special.log_negative_side(z), exact(lambda v: mpmath.log(mpmath.ncdf(-v)), z), 1e-12)


@kinds
def test_log1mexp_agrees_with_many_digits(dtype, tolerance):
    s = rounded([-1e-30, -1e-8, -0.5, -0.69, -0.7, -5.0, -80.0], dtype)
    assert_close(special.log1mexp(s), exact(lambda v: mpmath.log(1 - mpmath.exp(v)), s), tolerance)


@kinds
def test_log_of_minus_log_cdf(dtype, tolerance):
    f = rounded(GRID, dtype)
    assert_close(special.log_minus_log_ndtr(f), exact(lambda v: mpmath.log(-mpmath.log(mpmath.ncdf(-v))), f), tolerance)


@kinds
def test_log_probability_of_at_least_one(dtype, tolerance):
    """On both sides of where its series takes over, an error in log Z is a relative error of every probability."""
    t = rounded([-1e3, -100.0, -20.001, -19.999, -12.001, -11.999, -3.0, 0.0, 2.0], dtype)
    expected = exact(lambda v: mpmath.log(-mpmath.expm1(-mpmath.exp(v))), t)
    np.testing.assert_allclose(
        special.log_at_least_one(t).double().numpy(), expected, rtol=tolerance, atol=tolerance / 10
    )


# ---------------------------------------------------------------- the logistic law


@kinds
def test_jaakkola_lambda_and_its_series(dtype, tolerance):
    xi = rounded([0.0, 1e-12, 9.99e-4, 1.001e-3, 0.1, 3.0, 50.0, 1e4], dtype)
    expected = exact(lambda v: mpmath.tanh(v / 2) / (4 * v) if v else mpmath.mpf(1) / 8, xi, 50)
    assert_close(special.jaakkola_lambda(xi), expected, max(tolerance / 10, 1e-14))
    assert torch.equal(special.jaakkola_lambda(-xi), special.jaakkola_lambda(xi))


def test_jaakkola_lambda_has_a_gradient_at_zero():
    xi = torch.tensor([0.0, 1e-4, 2.0], dtype=torch.float64, requires_grad=True)
    special.jaakkola_lambda(xi).sum().backward()
    assert torch.isfinite(xi.grad).all()
    assert xi.grad[0] == 0


@kinds
def test_bernoulli_entropy_agrees_with_many_digits(dtype, tolerance):
    logit = rounded([-80.0, -3.0, 0.0, 3.0, 80.0], dtype)

    def entropy(v):
        p = 1 / (1 + mpmath.exp(-v))
        return -(p * mpmath.log(p) + (1 - p) * mpmath.log(1 - p))

    assert_close(special.bernoulli_entropy(logit), exact(entropy, logit, 100), tolerance)


# ---------------------------------------------------------------- the inverse of log cdf


def test_ndtri_exp_against_scipy():
    t = -np.concatenate([np.logspace(-6, np.log10(5000), 400), [0.1, math.log(2), 1.999, 2.0, 2.001]])
    found = special.ndtri_exp(torch.tensor(t)).numpy()
    np.testing.assert_allclose(found, scipy.special.ndtri_exp(t), rtol=1e-12, atol=1e-12)


def test_ndtri_exp_near_zero_and_at_the_ends():
    t = torch.tensor([-1e-9, -1e-16, -1e-100, -1e-300], dtype=torch.float64)
    found = special.ndtri_exp(t)
    np.testing.assert_allclose(special.log_ndtr(found).numpy(), t.numpy(), rtol=1e-12)
    assert special.ndtri_exp(torch.tensor([0.0, -math.inf])).tolist() == [math.inf, -math.inf]


def test_ndtri_exp_in_single_precision():
    t = -torch.logspace(-5, 3, 200)
    expected = scipy.special.ndtri_exp(t.double().numpy())
    np.testing.assert_allclose(special.ndtri_exp(t).double().numpy(), expected, rtol=1e-5, atol=1e-5)


PRECISIONS = [(torch.float64, 37.0, 1e-13), (torch.float32, 12.5, 2e-6)]


@pytest.mark.parametrize("z", [-37.0, -20.0, -5.0, -0.5, -1e-9, 0.0, 1e-9, 0.5, 3.0, 5.0, 12.0, 36.9])
def test_log_negative_side_equals_four_hundred_digits(z):
    with mpmath.workdps(400):
        expected = float(mpmath.log(mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2))
    assert log_negative_side(torch.tensor(z, dtype=torch.float64)).item() == pytest.approx(expected, rel=5e-13, abs=0)


@pytest.mark.parametrize(("dtype", "farthest", "tolerance"), PRECISIONS)
def test_log_negative_side_equals_log_ndtr_where_it_is_not_held(dtype, farthest, tolerance):
    z = torch.linspace(-farthest, farthest, 2001, dtype=dtype)
    expected = log_ndtr(-z.double())
    np.testing.assert_allclose(log_negative_side(z), expected, rtol=20 * tolerance, atol=0)


@pytest.mark.parametrize(("dtype", "farthest", "tolerance"), PRECISIONS)
def test_log_negative_side_is_held_and_finite_far_out(dtype, farthest, tolerance):
    z = torch.tensor([50.0, 1e3, 1e30, torch.inf], dtype=dtype)
    edge = torch.tensor(farthest, dtype=dtype)
    for sign in (1.0, -1.0):
        found = log_negative_side(sign * z)
        assert torch.isfinite(found).all()
        assert (found < 0).all()
        assert torch.equal(found, log_negative_side(sign * edge).expand(4))


@pytest.mark.parametrize(("dtype", "farthest", "tolerance"), PRECISIONS)
def test_slope_of_log_negative_side_is_minus_the_hazard_at_zero_too(dtype, farthest, tolerance):
    inside = 0.99 * farthest
    z = torch.cat([torch.linspace(-inside, inside, 400, dtype=dtype), torch.zeros(1, dtype=dtype)]).requires_grad_()
    log_negative_side(z).sum().backward()
    np.testing.assert_allclose(z.grad, -hazard(-z.detach().double()), rtol=500 * tolerance, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_slope_of_log_negative_side_is_zero_and_not_nan_where_it_is_held(dtype):
    z = torch.tensor([-1e3, -40.0, 40.0, 1e3], dtype=dtype, requires_grad=True)
    log_negative_side(z).sum().backward()
    assert torch.equal(z.grad, torch.zeros_like(z))
