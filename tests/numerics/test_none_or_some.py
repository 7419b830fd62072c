"""None or some of the instances of a bag: many digits, near and far out, in both kinds of arithmetic."""

import math

import mpmath
import numpy as np
import pytest
import torch
from tests.numerics.digits import rounded

from bagwise.numerics import none_or_some as module
from bagwise.numerics.none_or_some import none_or_some
from bagwise.numerics.segments import Segments

NEAR = [[-12.0, -12.4, -9.0], [-3.0] * 40, [0.0], [-1e-9, 1.0], [11.0, -12.0], [12.4]]
FAR = [[-30.0, -36.9], [-40.0, -38.0, -45.0, -60.0], [38.0, -2.0], [-50.0] * 3]
CASES = [(torch.float64, NEAR, 1e-12), (torch.float64, NEAR + FAR, 1e-12), (torch.float32, NEAR, 2e-5)]


def logs_of(bag):
    """log P(none) and log P(some) of one bag, in 900 digits."""
    with mpmath.workdps(900):
        none = mpmath.fprod(mpmath.ncdf(-mpmath.mpf(value)) for value in bag)
        return float(mpmath.log(none)), float(mpmath.log(1 - none))


def segments_of(bags):
    return Segments(torch.tensor(np.cumsum([0, *map(len, bags)])))


@pytest.mark.parametrize(("dtype", "bags", "tolerance"), CASES, ids=["near", "some far out", "single precision"])
def test_none_and_some_equal_many_digits(dtype, bags, tolerance):
    f = rounded([value for bag in bags for value in bag], dtype)
    found = none_or_some(f[:, None], segments_of(bags))
    rows = f.double().split([len(bag) for bag in bags])
    expected = np.array([logs_of(bag.tolist()) for bag in rows])
    np.testing.assert_allclose(found.none[:, 0].double(), expected[:, 0], rtol=tolerance, atol=0)
    np.testing.assert_allclose(found.some[:, 0].double(), expected[:, 1], rtol=tolerance, atol=tolerance)
    alone = [logs_of([value])[0] for value in f.double().tolist()]
    np.testing.assert_allclose(found.negative[:, 0].double(), alone, rtol=tolerance, atol=0)


def test_a_bag_far_out_changes_no_other_bag_beyond_rounding():
    def found(bags):
        f = torch.tensor([[value] for bag in bags for value in bag], dtype=torch.float64)
        return none_or_some(f, segments_of(bags))

    near, both = found(NEAR), found(NEAR + FAR)
    for one, other in ((near.none, both.none), (near.some, both.some)):
        torch.testing.assert_close(one, other[: len(NEAR)], rtol=1e-12, atol=1e-12)


def test_logarithms_of_all_instances_are_taken_only_where_one_lies_far_out(monkeypatch):
    def refused(f):
        raise AssertionError("not needed")

    monkeypatch.setattr(module, "log_minus_log_ndtr", refused)
    f = torch.tensor([[-37.0], [37.0]], dtype=torch.float64)
    assert torch.isfinite(none_or_some(f, segments_of([[0], [0]])).some).all()
    with pytest.raises(AssertionError):
        none_or_some(f - 0.1, segments_of([[0], [0]]))


@pytest.mark.parametrize("shift", [0.0, -36.0])
def test_slope_is_that_of_differences(shift):
    """Of log P(some), where it is -ndtr of the largest and where all tails are tiny."""
    f = torch.tensor([[0.3], [-0.8], [-1.0]], dtype=torch.float64) + shift
    f.requires_grad_()
    bags = segments_of([[0, 0], [0]])
    (slope,) = torch.autograd.grad(none_or_some(f, bags).some.sum(), f)
    step = 1e-5
    for row in range(3):
        ends = []
        for sign in (1.0, -1.0):
            moved = f.detach().clone()
            moved[row] += sign * step
            ends.append(float(none_or_some(moved, bags).some.sum()))
        assert slope[row].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-9)


def test_nan_is_not_hidden():
    f = torch.tensor([[math.nan], [0.0]], dtype=torch.float64)
    assert torch.isnan(none_or_some(f, segments_of([[0], [0]])).none[0]).all()
