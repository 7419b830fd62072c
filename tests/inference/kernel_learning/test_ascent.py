"""Steps of the kernel uphill."""

import numpy as np
import pytest
import torch
from tests.inference.candidates.exact_problems import scaled_matern

from bagwise.exceptions import NumericalError
from bagwise.gp import kernels
from bagwise.inference.kernel_learning.ascent import KernelAscent


def test_kernel_steps_go_downhill_and_stop():
    kernel = scaled_matern()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 2)))
    y = torch.distributions.MultivariateNormal(
        torch.zeros(60).double(), kernels.gram(scaled_matern(2.0, 0.6), x).detach() + 0.1 * torch.eye(60).double()
    ).sample()
    ascent, values = KernelAscent(kernel, 2, 40), []
    for _ in range(40):
        covariance = kernels.gram(kernel, x) + 0.1 * torch.eye(60).double()
        nll = -torch.distributions.MultivariateNormal(torch.zeros(60).double(), covariance).log_prob(y)
        nll.backward()
        values.append(float(nll.detach()))
        moved = ascent.step()
    assert values[-1] < values[0] - 1.0
    assert moved < 1e-2
    assert all(parameter.grad is None for parameter in kernel.parameters())


def test_a_gradient_that_is_not_finite_is_an_error():
    kernel = scaled_matern()
    ascent = KernelAscent(kernel, 2, 3)
    for parameter in kernel.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    with pytest.raises(NumericalError, match="gradient of the log evidence"):
        ascent.step()
