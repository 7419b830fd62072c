"""log cdf(−z) by one erfc: all digits in both tails, the right slope everywhere, held where a tail would underflow."""

import mpmath
import numpy as np
import pytest
import torch

from bagwise.numerics.special import hazard, log_ndtr, log_negative_side

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
