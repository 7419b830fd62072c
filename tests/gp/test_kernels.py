"""Kernels by name and from gpytorch."""

import numpy as np
import pytest
import torch
from gpytorch import kernels as k
from scipy.spatial.distance import cdist

from bagwise.exceptions import BagDataError
from bagwise.gp import kernels

D = 3


def rows(n, seed=0, dtype=torch.float64):
    return torch.randn(n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


# ---------------------------------------------------------------- by name

FORMULAS = {
    "rbf": lambda A, B, ell: np.exp(-0.5 * cdist(A, B) ** 2 / ell**2),
    "exponential": lambda A, B, ell: np.exp(-cdist(A, B) / ell),
    "matern32": lambda A, B, ell: (1 + np.sqrt(3) * cdist(A, B) / ell) * np.exp(-np.sqrt(3) * cdist(A, B) / ell),
    "matern52": lambda A, B, ell: (
        (1 + np.sqrt(5) * cdist(A, B) / ell + 5 / 3 * cdist(A, B) ** 2 / ell**2)
        * np.exp(-np.sqrt(5) * cdist(A, B) / ell)
    ),
    "linear": lambda A, B, ell: A @ B.T / ell**2,
    "rbf+linear": lambda A, B, ell: np.exp(-0.5 * cdist(A, B) ** 2 / ell**2) + A @ B.T / ell**2,
}


@pytest.mark.parametrize("lengthscale", [None, 0.3, 40.0])
@pytest.mark.parametrize("name", kernels.NAMES)
def test_kernels_equal_their_formulas(name, lengthscale):
    A, B = rows(7), rows(5, seed=1)
    with torch.no_grad():
        made = kernels.make_kernel(name, D, lengthscale, torch.float64)
        found, diagonal = kernels.cross(made, A, B), kernels.diagonal(made, A)
        gram = kernels.gram(made, A)
    formula, ell = FORMULAS[name], lengthscale or np.sqrt(D)
    np.testing.assert_allclose(found.numpy(), formula(A.numpy(), B.numpy(), ell), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(diagonal.numpy(), np.diag(formula(A.numpy(), A.numpy(), ell)), rtol=1e-12)
    np.testing.assert_allclose(gram.numpy(), formula(A.numpy(), A.numpy(), ell), rtol=1e-12, atol=1e-14)
    assert torch.equal(gram, gram.T)


def test_every_name_has_a_formula():
    assert set(FORMULAS) == set(kernels.NAMES)


@pytest.mark.parametrize("name", kernels.NAMES)
def test_kernels_in_single_precision_equal_their_formulas(name):
    made = kernels.make_kernel(name, D, None, torch.float32)
    found = kernels.cross(made, rows(4, dtype=torch.float32), rows(4, 1, torch.float32))
    assert found.dtype == torch.float32
    expected = FORMULAS[name](rows(4).numpy(), rows(4, 1).numpy(), np.sqrt(D))
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", kernels.NAMES)
def test_a_row_gives_the_same_values_in_any_company(name):
    """Down to rounding, also where a row is an inducing input and its distance 0 comes from a matrix product."""
    A = rows(60) * 10.0
    made = kernels.make_kernel(name, D, None, torch.float64)
    together = kernels.cross(made, A, A[:40]).detach()
    alone = torch.cat([kernels.cross(made, row[None], A[:40]).detach() for row in A])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-13 * float(together.abs().max()))


# ---------------------------------------------------------------- from gpytorch


def test_a_gpytorch_kernel_is_copied_and_keeps_its_variance():
    own = k.ScaleKernel(k.RBFKernel())
    own.outputscale = 4.0
    made = kernels.make_kernel(own, D, None, torch.float64)
    assert made is not own
    assert own.outputscale.dtype == torch.float32
    np.testing.assert_allclose(kernels.diagonal(made, rows(5)).detach().numpy(), 4.0, rtol=1e-6)


def test_sums_and_products_of_parts_that_see_some_columns():
    first, second = k.RBFKernel(active_dims=[0]), k.RBFKernel(active_dims=[2, 1], ard_num_dims=2)
    first.lengthscale, second.lengthscale = 0.5, torch.tensor([[2.0, 3.0]])
    A, B = rows(4), rows(5, 1)
    one = FORMULAS["rbf"](A[:, :1], B[:, :1], 0.5)
    two = FORMULAS["rbf"](A[:, [2, 1]] / torch.tensor([2.0, 3.0]), B[:, [2, 1]] / torch.tensor([2.0, 3.0]), 1.0)
    for own, expected in ((first + second, one + two), (first * second, one * two)):
        made = kernels.make_kernel(own, D, None, torch.float64)
        np.testing.assert_allclose(kernels.cross(made, A, B).detach().numpy(), expected, rtol=1e-5)


def test_a_sum_with_a_linear_kernel_is_only_added_up():
    """gpytorch would factor k(A, A) on the way and warn that repeated rows make it singular."""
    own = k.RBFKernel() + k.LinearKernel()
    A = rows(4).repeat(2, 1)
    made = kernels.make_kernel(own, D, None, torch.float64)
    with torch.no_grad():
        expected = sum(part(A).to_dense() for part in made.kernels)
        torch.testing.assert_close(kernels.gram(made, A), expected)
        torch.testing.assert_close(kernels.cross(made, A, A), expected)
        torch.testing.assert_close(kernels.diagonal(made, A), expected.diagonal())


@pytest.mark.parametrize(
    ("kernel", "lengthscale", "message"),
    [
        ("gauss", None, "kernel='gauss': expected one of 'rbf', 'exponential'"),
        (3, None, "kernel=3: expected one of .* or a gpytorch kernel"),
        ("rbf", 0.0, "lengthscale=0.0: expected a positive number"),
        ("rbf", -1, "lengthscale=-1"),
        ("rbf", "long", "lengthscale='long'"),
        ("rbf", np.nan, "lengthscale=nan"),
        (k.RBFKernel(), 2.0, "set it on the gpytorch kernel itself"),
        (k.RBFKernel(ard_num_dims=4), None, r"RBFKernel\(.*\) does not fit 3 features"),
        (k.RBFKernel(active_dims=[7]), None, "does not fit 3 features"),
        (k.RBFKernel(batch_shape=torch.Size([2])), None, "without batch_shape"),
    ],
)
def test_kernels_that_cannot_be_used(kernel, lengthscale, message):
    with pytest.raises(BagDataError, match=message):
        kernels.make_kernel(kernel, D, lengthscale, torch.float64)


def test_summary_in_natural_units():
    own = k.ScaleKernel(k.RBFKernel(ard_num_dims=2)) + k.LinearKernel()
    own.kernels[0].outputscale, own.kernels[0].base_kernel.lengthscale = 4.0, torch.tensor([[0.5, 2.0]])
    own.kernels[1].variance = 3.0
    expected = "(ScaleKernel(RBFKernel(lengthscale 0.5–2), outputscale 4) + LinearKernel(variance 3))"
    assert kernels.summary(own) == expected


def test_a_linear_kernel_is_recognised_with_its_variance():
    scaled = k.ScaleKernel(k.LinearKernel()).double()
    scaled.outputscale, scaled.base_kernel.variance = 3.0, 0.5
    assert kernels.linear_variance(scaled).item() == pytest.approx(1.5)
    assert kernels.linear_variance(k.LinearKernel(active_dims=[0])) is None
    assert kernels.linear_variance(k.RBFKernel()) is None
    assert kernels.is_linear("linear")
    assert kernels.is_linear(scaled)
    assert not kernels.is_linear("rbf")
    assert not kernels.is_linear(scaled + k.RBFKernel())


class Seeing(k.Kernel):
    """Notes where the rows are that it is asked about."""

    has_lengthscale = True

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x1, x2, diag=False, **params):
        self.seen.append(x1.device.type)
        return x1.new_ones(len(x1)) if diag else x1.new_ones(len(x1), len(x2))

    def __deepcopy__(self, memo):
        return self


def test_a_kernel_is_tried_on_rows_of_its_own_device():
    seen = []
    kernels.make_kernel(Seeing(seen).to("meta"), D, None, torch.float64)  # a device that every machine has
    assert seen == ["meta"]
