"""The free parameters of a kernel as one vector: round trips, gradients, priors, what is not free."""

import math

import numpy as np
import pytest
import torch
from gpytorch import kernels
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive

from bagwise.gp.feature_maps import MLP
from bagwise.gp.kernel_parameters import VARIANCE_CENTRE, KernelParameters
from bagwise.gp.kernels import MappedKernel, cross, gram

RBF, Matern, Linear, Scale = kernels.RBFKernel, kernels.MaternKernel, kernels.LinearKernel, kernels.ScaleKernel

KERNELS = {
    "rbf": lambda: Scale(RBF()),
    "ard": lambda: Scale(RBF(ard_num_dims=3)),
    "matern": lambda: Scale(Matern(nu=1.5)),
    "exponential": lambda: Scale(Matern(nu=0.5)),
    "sum": lambda: Scale(RBF()) + Scale(Linear()),
    "product": lambda: Scale(RBF(active_dims=[0]) * Matern(nu=2.5, active_dims=[1, 2])),
    "interval": lambda: Scale(RBF(lengthscale_constraint=Interval(0.1, 5.0))),
    "lower bound": lambda: Scale(RBF(lengthscale_constraint=GreaterThan(0.05))),
    "exponential transform": lambda: Scale(RBF(lengthscale_constraint=Positive(torch.exp, torch.log))),
    "no transform": lambda: Scale(RBF(lengthscale_constraint=Positive(None, None, initial_value=1.3))),
    "mapped": lambda: MappedKernel(Scale(RBF()), MLP(3, (4,), 2)),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    torch.manual_seed(0)
    return KERNELS[request.param]().double()


def rows(n=7):
    return torch.tensor(np.random.default_rng(1).normal(size=(n, 3)))


def value_of(kernel):
    """Some scalar of the kernel matrix, with weights so that no entry cancels another."""
    matrix = gram(kernel, rows()) + cross(kernel, rows(), rows().flip(0))
    weights = torch.linspace(-1.0, 2.0, matrix.numel(), dtype=torch.float64).reshape(matrix.shape)
    return (weights * matrix).sum()


def test_what_is_put_in_comes_out(kernel):
    parameters = KernelParameters(kernel, 3)
    start = parameters.get()
    before = value_of(kernel).item()
    other = start + np.linspace(-0.5, 0.7, len(start))
    parameters.set(other)
    np.testing.assert_allclose(parameters.get(), other, atol=1e-12)
    assert value_of(kernel).item() != pytest.approx(before)
    parameters.set(start)
    np.testing.assert_allclose(parameters.get(), start, atol=1e-12)
    assert value_of(kernel).item() == pytest.approx(before, rel=1e-10)


def test_the_gradient_equals_finite_differences(kernel):
    parameters, step = KernelParameters(kernel, 3), 1e-6
    start = parameters.get() + 0.2
    parameters.set(start)
    parameters.clear()
    value_of(kernel).backward()
    gradient = parameters.gradient()
    assert gradient.shape == start.shape == parameters.centre.shape == parameters.spread.shape
    for i in range(len(start)):
        slopes = []
        for sign in (1, -1):
            changed = start.copy()
            changed[i] += sign * step
            parameters.set(changed)
            slopes.append(value_of(kernel).item())
        assert gradient[i] == pytest.approx((slopes[0] - slopes[1]) / (2 * step), abs=2e-6)


def test_a_gradient_can_be_forgotten(kernel):
    parameters = KernelParameters(kernel, 3)
    value_of(kernel).backward()
    assert (parameters.gradient() != 0).any()
    parameters.clear()
    assert (parameters.gradient() == 0).all()


def test_positive_parameters_are_there_by_their_logarithm():
    kernel = Scale(RBF()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 6.0, 0.5
    assert KernelParameters(kernel, 3).get() == pytest.approx([math.log(6.0), math.log(0.5)])


def test_no_point_lies_beyond_a_lower_bound():
    kernel = RBF(lengthscale_constraint=GreaterThan(0.05)).double()
    parameters = KernelParameters(kernel, 3)
    for value in (-30.0, -3.0, 0.0, 5.0):
        parameters.set(np.array([value]))
        assert kernel.lengthscale.item() == pytest.approx(0.05 + math.exp(value), rel=1e-7)
        assert math.isfinite(value_of(kernel).item())


def test_no_point_lies_beyond_an_interval():
    kernel = RBF(lengthscale_constraint=Interval(0.1, 5.0)).double()
    parameters = KernelParameters(kernel, 3)
    for value in (-30.0, 0.0, 30.0):
        parameters.set(np.array([value]))
        assert 0.0999 < kernel.lengthscale.item() < 5.0001


def test_frozen_parameters_are_not_free():
    kernel = Scale(RBF()).double()
    kernel.raw_outputscale.requires_grad_(False)
    assert len(KernelParameters(kernel, 3).get()) == 1
    kernel.base_kernel.raw_lengthscale.requires_grad_(False)
    parameters = KernelParameters(kernel, 3)
    assert parameters.get().shape == parameters.gradient().shape == parameters.centre.shape == (0,)


def test_single_precision_is_taken():
    kernel = Scale(RBF())
    parameters = KernelParameters(kernel, 3)
    parameters.set(np.array([1.0, -0.5]))
    assert kernel.outputscale.dtype == torch.float32
    assert parameters.get() == pytest.approx([1.0, -0.5], abs=1e-6)
    assert parameters.get().dtype == parameters.gradient().dtype == np.float64


# ---------------------------------------------------------------- priors


def priors(kernel, n_features):
    parameters = KernelParameters(kernel.double(), n_features)
    return parameters.centre, parameters.spread


def test_lengthscales_are_expected_around_the_root_of_the_number_of_features():
    centre, spread = priors(Scale(RBF(ard_num_dims=16)), 16)
    assert centre == pytest.approx([math.log(VARIANCE_CENTRE)] + [math.log(4.0)] * 16)
    assert spread == pytest.approx([1.5] + [1.0] * 16)


def test_only_the_features_that_a_part_sees_count():
    centre, _ = priors(RBF(active_dims=[0, 2, 5, 7]) * RBF(active_dims=[1]), 9)
    assert centre == pytest.approx([math.log(2.0), 0.0])


def test_behind_a_feature_map_only_its_features_count():
    kernel = MappedKernel(RBF(), MLP(9, (), 4)).double()
    parameters = KernelParameters(kernel, 9)
    assert parameters.centre[0] == pytest.approx(math.log(2.0))
    weights = torch.cat([part.detach().ravel() for part in kernel.feature_map.parameters()]).numpy()
    np.testing.assert_array_equal(parameters.centre[1:], weights)


def test_the_variance_of_a_linear_kernel_is_expected_smaller_the_more_features_it_adds_up():
    centre, spread = priors(Linear(), 16)
    assert centre == pytest.approx([math.log(VARIANCE_CENTRE / 16)])
    assert spread == pytest.approx([1.5])


def test_other_parameters_are_expected_where_they_started():
    kernel = kernels.RQKernel().double()
    kernel.alpha, kernel.lengthscale = 0.3, 7.0
    names = [name for name, _ in kernel.named_parameters()]
    centre, _ = priors(kernel, 1)
    assert centre[names.index("raw_alpha")] == pytest.approx(math.log(0.3))
    assert centre[names.index("raw_lengthscale")] == pytest.approx(0.0)


def test_bounded_parameters_are_expected_where_they_started():
    kernel = RBF(lengthscale_constraint=Interval(0.1, 5.0)).double()
    kernel.lengthscale = 0.7
    centre, spread = priors(kernel, 4)
    assert centre == pytest.approx(kernel.raw_lengthscale.detach().numpy().ravel())
    assert spread == pytest.approx([1.5])


def test_a_bound_above_the_expected_value_leaves_the_start():
    kernel = RBF(lengthscale_constraint=GreaterThan(10.0)).double()
    kernel.lengthscale = 12.0
    centre, _ = priors(kernel, 4)
    assert centre == pytest.approx([math.log(2.0)])


def test_an_upper_bound_alone_is_left_to_gpytorch():
    kernel = Scale(RBF(), outputscale_constraint=LessThan(0.0))
    kernel.raw_outputscale.data.fill_(0.4)
    centre, _ = priors(kernel, 4)
    assert centre[0] == pytest.approx(0.4)


def test_starts_of_a_search_have_larger_variances_and_lengthscales():
    kernel = Scale(RBF(ard_num_dims=2)) + Linear()
    parameters = KernelParameters(kernel.double(), 2)
    here, starts = parameters.get(), parameters.starts()
    assert len(starts) == 6
    assert np.array_equal(starts[0], here)
    parameters.set(starts[-1])
    rbf, linear = kernel.kernels
    assert np.allclose(parameters.get() - here, np.log([8.0, 4.0, 4.0, 8.0]))
    assert float(linear.variance.detach()) == pytest.approx(8.0 * math.log(2.0), rel=1e-6)
    assert rbf.base_kernel.lengthscale.detach().numpy() == pytest.approx(4.0 * math.log(2.0), rel=1e-6)


def test_a_linear_kernel_has_starts_for_its_variance_alone():
    assert len(KernelParameters(Linear().double(), 3).starts()) == 2
