"""Whitened features: right, the same in any chunking, from any kind of table."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
import torch
from gpytorch import kernels as k
from tests.problems import features_of, random_bags

from bagwise import BagDataError, Bags, MILGPProbit
from bagwise.gp import features, kernels
from bagwise.gp.features import bag_slices


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0), n_bags=12, n_features=3)


def scaled(variance, base=None):
    kernel = k.ScaleKernel(base or k.RBFKernel())
    kernel.outputscale = variance
    return kernel


KERNELS = {
    "rbf": "rbf",
    "exponential": "exponential",
    "linear": "linear",
    "variance 4": scaled(4.0),
    "variance 0.01": scaled(0.01),
    "sum": scaled(9.0, k.MaternKernel(nu=1.5)) + k.LinearKernel(),
    "product": scaled(2.0, k.RBFKernel(active_dims=[0])) * k.PolynomialKernel(power=2, active_dims=[1, 2]),
}


def make(bags, kernel, **changes):
    return features_of(bags, kernel=kernel, lengthscale=None, **changes)


# ---------------------------------------------------------------- what φ and κ are


@pytest.mark.parametrize("name", KERNELS)
def test_phi_and_kappa_together_are_the_kernel_variance(bags, name):
    made = make(bags, KERNELS[name])
    phi, kappa = made.transform(bags)
    expected = kernels.diagonal(made.kernel, made.standardised(bags.X)).detach().numpy()
    np.testing.assert_allclose((phi**2).sum(axis=1) + kappa, expected, rtol=1e-9)
    assert (kappa >= 0).all()


@pytest.mark.parametrize("name", KERNELS)
def test_phi_is_the_whitened_kernel(bags, name):
    made = make(bags, KERNELS[name])
    x = (bags.X - bags.X.mean(axis=0)) / bags.X.std(axis=0)
    with torch.no_grad():
        ZZ = kernels.cross(made.kernel, made.inducing, made.inducing).numpy()
        Zx = kernels.cross(made.kernel, made.inducing, torch.tensor(x)).numpy()
    L = np.linalg.cholesky(ZZ + made.jitter * np.diag(ZZ).mean() * np.eye(len(ZZ)))
    np.testing.assert_allclose(made.transform(bags)[0], np.linalg.solve(L, Zx).T, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["rbf", "exponential", "variance 4"])
def test_with_every_instance_inducing_the_features_reproduce_the_kernel_matrix(bags, name):
    made = make(bags, KERNELS[name], n_inducing=None, jitter=1e-12)
    phi, kappa = made.transform(bags)
    with torch.no_grad():
        K = kernels.gram(made.kernel, made.standardised(bags.X)).numpy()
    np.testing.assert_allclose(phi @ phi.T, K, atol=1e-8)
    np.testing.assert_allclose(kappa, 0.0, atol=1e-8)
    assert made.origin == f"all {bags.n_instances} distinct instances"


def test_far_from_everything_only_the_variance_is_left(bags):
    made = make(bags, scaled(4.0))
    phi, kappa = made.transform([np.full((1, 3), 1e4)])
    np.testing.assert_allclose(phi, 0.0, atol=1e-12)
    np.testing.assert_allclose(kappa, 4.0, rtol=1e-6)


@pytest.mark.parametrize(("bias", "columns"), [(0.0, 8), (2.5, 9)])
def test_the_bias_is_a_constant_last_column_and_no_part_of_kappa(bags, bias, columns):
    made = make(bags, "rbf", bias=bias)
    phi, kappa = made.transform(bags)
    plain, plain_kappa = make(bags, "rbf").transform(bags)
    assert phi.shape == (bags.n_instances, columns) == (bags.n_instances, made.n_columns)
    np.testing.assert_array_equal(phi[:, :8], plain)
    np.testing.assert_array_equal(kappa, plain_kappa)
    np.testing.assert_array_equal(phi[:, 8:], np.full((bags.n_instances, columns - 8), bias))


# ---------------------------------------------------------------- chunks


@pytest.mark.parametrize("rows", [1, 3, 7, 10**6])
@pytest.mark.parametrize("name", ["rbf", "exponential", "sum"])
def test_chunking_changes_nothing(bags, name, rows, monkeypatch):
    made = make(bags, KERNELS[name], bias=1.0)
    phi, kappa = made.transform(bags)
    monkeypatch.setattr(features, "CHUNK_ROWS", rows)
    again, kappa_again = made.transform(bags)
    np.testing.assert_allclose(again, phi, rtol=0, atol=1e-11)
    np.testing.assert_allclose(kappa_again, kappa, rtol=0, atol=1e-11)
    np.testing.assert_allclose(make(bags, KERNELS[name]).scale, made.scale, rtol=1e-13)


def test_chunks_hold_whole_bags_in_order_and_leave_gradients_alone(bags, monkeypatch):
    monkeypatch.setattr(features, "CHUNK_ROWS", 5)
    seen = []
    for part, design in make(bags, "rbf").designs(bags):
        assert torch.is_grad_enabled()
        assert not design.phi.requires_grad
        assert design.segments.sizes.tolist() == bags[part].sizes.tolist()
        assert len(design.phi) == len(design.kappa) == bags[part].n_instances
        seen += list(bags[part].ids)
    assert tuple(seen) == bags.ids


def test_many_columns_make_for_shorter_chunks(bags, monkeypatch):
    monkeypatch.setattr(features, "_CHUNK_ENTRIES", 15)  # five rows of three columns
    assert max(len(design.phi) for _, design in make(bags, "rbf").designs(bags)) < 5 + bags.sizes.max()


@pytest.mark.parametrize(
    ("sizes", "rows", "expected"),
    [
        ([2, 2, 2], 100, [(0, 3)]),
        ([2, 2, 2], 2, [(0, 1), (1, 2), (2, 3)]),
        ([2, 2, 2], 4, [(0, 2), (2, 3)]),
        ([1, 50, 1, 1], 3, [(0, 2), (2, 4)]),
        ([7], 3, [(0, 1)]),
    ],
)
def test_slices_hold_whole_bags_of_a_bounded_number_of_rows(sizes, rows, expected):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    assert [(part.start, part.stop) for part in bag_slices(offsets, rows)] == expected


# ---------------------------------------------------------------- every kind of table


@pytest.mark.parametrize(
    "turn",
    [
        scipy.sparse.csr_matrix,
        scipy.sparse.coo_array,
        torch.tensor,
        pd.DataFrame,
        lambda X: pyarrow.table({"u": X[:, 0], "v": X[:, 1], "w": X[:, 2]}),
    ],
)
def test_every_table_gives_the_features_of_the_dense_one(bags, turn):
    X = np.where(np.abs(bags.X) > 0.5, bags.X, 0.0)
    dense, other = Bags(X, bags.index), Bags(turn(X), bags.index)
    for inducing in ("random", "kmeans++"):
        expected, found = make(dense, "rbf", inducing=inducing), make(other, "rbf", inducing=inducing)
        np.testing.assert_allclose(found.transform(other)[0], expected.transform(dense)[0], rtol=0, atol=1e-9)


def test_single_precision_input_and_arithmetic(bags):
    expected, kappa = make(bags, "rbf").transform(bags)
    single = bags.with_features(bags.X.astype(np.float32))
    np.testing.assert_allclose(make(single, "rbf").transform(single)[0], expected, atol=1e-4)
    made = make(bags, "rbf", dtype=torch.float32)
    phi, kappa = made.transform(bags)
    assert phi.dtype == kappa.dtype == np.float32
    assert made.jitter == 1e-4
    reproduced = (phi**2).sum(axis=1) + kappa
    np.testing.assert_allclose(reproduced, 1.0, atol=1e-5)


def test_columns_far_from_zero_survive_single_precision(bags):
    """Seconds since 1970, say: they must be centred before they are rounded."""
    moved = bags.with_features(bags.X + 1.7e9)
    expected = make(bags, "rbf", dtype=torch.float32).transform(bags)[0]
    np.testing.assert_allclose(make(moved, "rbf", dtype=torch.float32).transform(moved)[0], expected, atol=1e-3)


def test_transform_takes_what_estimators_take_and_the_right_columns(bags):
    made = make(bags, "rbf")
    np.testing.assert_array_equal(made.transform([X for _, X in bags])[0], made.transform(bags)[0])
    with pytest.raises(BagDataError, match="bags with 3 features, as in fit, got 2"):
        made.transform(bags.X[:, :2])


# ---------------------------------------------------------------- what is left


def test_nothing_to_see_gives_the_prior_and_no_failure():
    """Every column constant: a linear kernel is then zero everywhere."""
    flat = Bags(np.ones((4, 2)), np.arange(4))
    phi, kappa = features_of(flat, kernel="linear").transform(flat)
    np.testing.assert_allclose(phi, 0.0, atol=1e-12)
    np.testing.assert_allclose(kappa, 0.0, atol=1e-12)


def test_the_fitted_features_are_frozen_and_shown(bags):
    y = np.arange(len(bags)) % 2
    made = MILGPProbit(max_iter=2, n_inducing=1000, random_state=0).fit(bags, y).features_
    assert made.origin == f"all {bags.n_instances} distinct instances"
    with pytest.raises(AttributeError):
        made.bias = 3.0


@pytest.mark.parametrize("standardize", [False, True])
def test_sparse_rows_under_a_linear_kernel_are_never_made_dense(standardize, monkeypatch):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((40, 300), density=0.05, rng=rng, format="csr")
    groups = np.repeat(np.arange(10), 4)
    dense, sparse = Bags(X.toarray(), groups), Bags(X, groups)
    made = make(dense, "linear", n_inducing=15, bias=2.0, standardize=standardize)
    expected = made.transform(dense)
    monkeypatch.setattr(features.Features, "standardised", lambda *parts: pytest.fail("rows are made dense"))
    for found, right in zip(made.transform(sparse), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("n_rows", "most", "expected"), [(1000, 10**6, 100), (64_000, 10**6, 1000), (64_000, 300, 300), (64_000, 50, 100)]
)
def test_very_many_rows_make_longer_chunks_up_to_a_limit(n_rows, most, expected):
    assert features.longer_chunks(100, n_rows, most) == expected
