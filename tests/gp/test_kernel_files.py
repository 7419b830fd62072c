"""The grammar in which kernels are saved."""

import json

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch import constraints as c
from gpytorch import kernels as k

from bagwise.exceptions import ModelFileError
from bagwise.gp import kernel_files, kernels

D = 3


def rows(n, seed=0, dtype=torch.float64):
    return torch.randn(n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def with_values(kernel, seed=0):
    """The kernel with arbitrary parameters instead of gpytorch's initial ones."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in kernel.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    return kernel


SAVED = {
    "rbf": k.RBFKernel,
    "ard": lambda: k.RBFKernel(ard_num_dims=D),
    "active": lambda: k.RBFKernel(active_dims=[0, 2], ard_num_dims=2),
    "matern12": lambda: k.MaternKernel(nu=0.5),
    "matern32": lambda: k.MaternKernel(nu=1.5, ard_num_dims=D),
    "matern52": k.MaternKernel,
    "linear": k.LinearKernel,
    "linear-ard": lambda: k.LinearKernel(ard_num_dims=D),
    "rq": k.RQKernel,
    "periodic": lambda: k.PeriodicKernel(ard_num_dims=D),
    "cosine": lambda: k.CosineKernel(active_dims=[1]),
    "constant": k.ConstantKernel,
    "polynomial": lambda: k.PolynomialKernel(power=3),
    "scaled": lambda: k.ScaleKernel(k.RBFKernel(active_dims=[1])),
    "scaled-sum": lambda: k.ScaleKernel(k.RBFKernel() + k.ScaleKernel(k.LinearKernel())),
    "product": lambda: k.RBFKernel(active_dims=[0]) * k.PeriodicKernel(active_dims=[1]) + k.ConstantKernel(),
    "interval": lambda: k.RBFKernel(lengthscale_constraint=c.Interval(0.1, 3.0)),
    "greater": lambda: k.RBFKernel(lengthscale_constraint=c.GreaterThan(1e-4)),
    "less": lambda: k.ConstantKernel(constant_constraint=c.LessThan(5.0)),
    "bounds": lambda: k.RBFKernel(ard_num_dims=D, lengthscale_constraint=c.GreaterThan(torch.tensor([0.1, 0.2, 0.3]))),
    "prior": lambda: k.RBFKernel(lengthscale_prior=gpytorch.priors.GammaPrior(2.0, 3.0)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", SAVED)
def test_described_kernel_comes_back_with_its_values(name, dtype):
    kernel = kernels.make_kernel(with_values(SAVED[name]()), D, None, dtype)
    tree = json.loads(json.dumps(kernel_files.describe(kernel), allow_nan=False))
    back = kernel_files.rebuild(tree, kernel_files.parameters(kernel), dtype)
    A, B = rows(6, dtype=dtype), rows(4, 1, dtype)
    assert torch.equal(kernels.cross(back, A, B), kernels.cross(kernel, A, B))
    assert torch.equal(kernels.diagonal(back, A), kernels.diagonal(kernel, A))
    assert kernels.summary(back) == kernels.summary(kernel)


def test_bounds_given_in_double_precision_are_not_rounded():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        kernel = k.RBFKernel(lengthscale_constraint=c.Interval(0.1, 1.0 / 3.0))
    finally:
        torch.set_default_dtype(before)
    back = kernel_files.rebuild(kernel_files.describe(kernel), kernel_files.parameters(kernel), torch.float64)
    assert torch.equal(kernels.cross(back, rows(3), rows(4)), kernels.cross(kernel, rows(3), rows(4)))


class RBFKernel(k.RBFKernel):
    """A user's own kernel that happens to have a known name."""

    def forward(self, x1, x2, **options):
        return 2.0 * super().forward(x1, x2, **options)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (k.PiecewisePolynomialKernel(), "PiecewisePolynomialKernel cannot be saved .it works otherwise"),
        (
            k.ScaleKernel(k.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=D)),
            "SpectralMixtureKernel cannot be saved",
        ),
        (RBFKernel(), "RBFKernel cannot be saved"),
        (
            k.RBFKernel(lengthscale_constraint=c.Positive(transform=torch.exp, inv_transform=torch.log)),
            "constraint Positive on raw_lengthscale_constraint cannot be saved .*own transform",
        ),
        (k.RBFKernel(lengthscale_constraint=c.GreaterThan(0.1, transform=None)), "constraint GreaterThan"),
    ],
)
def test_what_cannot_be_saved_says_so(kernel, message):
    kernels.make_kernel(kernel, D, None, torch.float64)
    with pytest.raises(ModelFileError, match=message):
        kernel_files.describe(kernel)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda tree, values: ({**tree, "kernel": "os.system"}, values), "unknown kernel 'os.system'"),
        (lambda tree, values: ({**tree, "kernel": "Kernel"}, values), "unknown kernel 'Kernel'"),
        (lambda tree, values: ({**tree, "kernel": None}, values), "unknown kernel None"),
        (lambda tree, values: (tree, {}), "does not hold the parameters|needs the parameters"),
        (lambda tree, values: (tree, {"raw_lengthscale": torch.zeros(1, 9)}), "needs the parameters"),
        (lambda tree, values: (tree, values | {"more": torch.zeros(1)}), "needs the parameters"),
        (lambda tree, values: (tree, {"raw_lengthscale": torch.full((1, D), np.nan)}), "is not finite"),
        (
            lambda tree, values: ({**tree, "arguments": {"ard_num_dims": 10**12}}, values),
            "does not hold the parameters that its kernel needs",
        ),
    ],
)
def test_a_damaged_description_is_refused(damage, message):
    kernel = k.RBFKernel(ard_num_dims=D)
    with pytest.raises(ModelFileError, match=message):
        kernel_files.rebuild(*damage(kernel_files.describe(kernel), kernel_files.parameters(kernel)), torch.float64)
