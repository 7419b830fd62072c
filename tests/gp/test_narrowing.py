"""Wide rows made narrow: what an isotropic kernel sees of them stays."""

import numpy as np
import pytest
import torch

from bagwise import BagGP
from bagwise.datasets import make_bags
from bagwise.gp import kernels, narrowing

WIDTH, N_INDUCING = 30, 4


@pytest.fixture
def rows():
    drawn = torch.from_numpy(np.random.default_rng(0).normal(size=(12, WIDTH)))
    return drawn[:N_INDUCING], drawn


def named(name, **shape):
    return kernels.trainable_kernel(name, WIDTH, None, 1.7, **{"ard": False, **shape})


@pytest.mark.parametrize("name", kernels.NAMES)
def test_isotropic_kernels_give_the_same_numbers_for_narrow_rows(rows, name):
    inducing, x = rows
    kernel = named(name)
    narrow = narrowing.narrowing(kernel, inducing)
    assert narrow(x).shape == (12, N_INDUCING + 1)
    pairs = (inducing, x), (narrow.inducing(inducing), narrow(x))
    (cross, gram, own), found = (
        (kernels.cross(kernel, z, x), kernels.gram(kernel, z), kernels.diagonal(kernel, x)) for z, x in pairs
    )
    for mine, wanted in zip(found, (cross, gram, own), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0, atol=1e-7 if name == "exponential" else 1e-12)


def test_rows_stay_wide_where_axes_matter_or_inducing_inputs_move(rows):
    inducing, _ = rows
    one_column = kernels.kernels.RBFKernel(active_dims=[0])
    mapped = kernels.MappedKernel(named("rbf"), torch.nn.Identity())
    for kernel in (named("rbf", ard=True), one_column, mapped, one_column + named("linear")):
        assert narrowing.narrowing(kernel, inducing) is None
    assert narrowing.narrowing(named("rbf"), inducing.clone().requires_grad_()) is None
    assert narrowing.narrowing(named("rbf"), inducing[:, : 2 * N_INDUCING]) is None


def test_the_same_kernel_is_learned_from_narrow_rows(monkeypatch):
    bags, y, _ = make_bags(12, 5, WIDTH, random_state=0)
    settings = {"kernel": "rbf+linear", "n_inducing": 6, "size_effect": False, "random_state": 0}
    narrow = BagGP(**settings).fit(bags, y)
    monkeypatch.setattr(narrowing, "_WIDE", np.inf)
    wide = BagGP(**settings).fit(bags, y)
    assert len(wide.learning_trace_) > 1
    np.testing.assert_allclose(narrow.learning_trace_.values, wide.learning_trace_.values, rtol=1e-6)
    np.testing.assert_allclose(narrow.predict_proba(bags), wide.predict_proba(bags), atol=1e-5)
