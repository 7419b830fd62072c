"""Inducing inputs and whitened features: right, the same in any chunking, from any kind of table."""

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
from bagwise.gp.moments import column_moments


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
def test_bag_slices(sizes, rows, expected):
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


# ---------------------------------------------------------------- standardisation


def test_shift_and_scale_are_stored_and_used(bags):
    made = make(bags, "rbf")
    np.testing.assert_allclose(made.shift.numpy(), bags.X.mean(axis=0))
    np.testing.assert_allclose(made.scale.numpy(), bags.X.std(axis=0))
    other = Bags(bags.X * [10.0, 0.1, 1e5] - 7.0, bags.index)
    np.testing.assert_allclose(make(other, "rbf").transform(other)[0], made.transform(bags)[0], atol=1e-6)
    raw = make(bags, "rbf", standardize=False)
    assert raw.shift.tolist() == [0.0] * 3
    assert raw.scale.tolist() == [1.0] * 3


@pytest.mark.parametrize("turn", [np.asarray, scipy.sparse.csr_matrix])
def test_constant_columns_have_scale_one(turn):
    X = np.column_stack([np.arange(5.0), np.full(5, 1e8), np.zeros(5), np.full(5, 0.1)])
    shift, scale = column_moments(turn(X))
    np.testing.assert_allclose(shift, [2.0, 1e8, 0.0, 0.1])
    np.testing.assert_allclose(scale, [np.sqrt(2.0), 1.0, 1.0, 1.0])


def test_numbers_too_large_to_standardise_name_the_column(bags):
    X = np.array(bags.X)
    X[:2, 1] = 1.7e308, -1.7e308
    with pytest.raises(BagDataError, match="column 'v' holds numbers too large"):
        make(Bags(X, bags.index, feature_names=["u", "v", "w"]), "rbf")


# ---------------------------------------------------------------- inducing inputs


def test_given_inducing_inputs_are_in_the_units_of_the_data(bags):
    Z = bags.X[[3, 1]]
    for given in (Z, Z.tolist(), pd.DataFrame(Z), torch.tensor(Z), scipy.sparse.csr_matrix(Z)):
        made = make(bags, "rbf", inducing=given)
        np.testing.assert_allclose(made.inducing.numpy(), (Z - bags.X.mean(axis=0)) / bags.X.std(axis=0))
        assert (made.origin, made.n_inducing) == ("given", 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inducing": "best"}, "inducing='best': expected one of 'kmeans\\+\\+', 'random'"),
        ({"inducing": np.zeros((2, 4))}, r"expected an \(R, 3\) array, got shape \(2, 4\)"),
        ({"inducing": np.zeros((0, 3))}, r"got shape \(0, 3\)"),
        ({"inducing": np.zeros(3)}, "Expected 2D array"),
        ({"inducing": np.full((2, 3), np.nan)}, "inducing: .*NaN"),
        ({"n_inducing": 0}, "n_inducing=0: expected a whole number of at least 1"),
        ({"n_inducing": 2.5}, "n_inducing=2.5"),
        ({"n_inducing": True}, "n_inducing=True"),
        ({"bias": -1.0}, "bias=-1.0: expected a non-negative number"),
        ({"jitter": "small"}, "jitter='small'"),
        ({"standardize": "yes"}, "standardize='yes': expected True or False"),
    ],
)
def test_bad_settings(bags, changes, message):
    with pytest.raises(BagDataError, match=message):
        make(bags, "rbf", **changes)


def test_random_inducing_inputs_are_instances(bags):
    made = make(bags, "rbf", inducing="random", standardize=False)
    assert made.origin == "random"
    assert {tuple(row) for row in made.inducing.tolist()} <= {tuple(row) for row in bags.X.tolist()}


def test_kmeans_puts_centres_among_the_instances():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    X = np.repeat(centres, 30, axis=0) + 0.01 * rng.normal(size=(120, 2))
    made = features_of(Bags(X, np.arange(120)), n_inducing=4, inducing="kmeans++", standardize=False)
    found = made.inducing.numpy()
    np.testing.assert_allclose(found[np.lexsort(np.round(found).T)], centres[np.lexsort(centres.T)], atol=0.02)
    assert made.origin == "kmeans++"


@pytest.mark.parametrize("how", ["random", "kmeans++"])
def test_the_choice_depends_on_the_given_stream_only(bags, how):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = make(bags, "rbf", inducing=how, random=np.random.RandomState(1)).inducing
    again = make(bags, "rbf", inducing=how, random=np.random.RandomState(1)).inducing
    other = make(bags, "rbf", inducing=how, random=np.random.RandomState(2)).inducing
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("how", ["random", "kmeans++"])
def test_repeated_rows_count_once(bags, how):
    twice = Bags(np.repeat(bags.X[:6], 5, axis=0), np.repeat(np.arange(6), 5))
    made = make(twice, "rbf", inducing=how, n_inducing=10)
    assert (made.n_inducing, made.origin) == (6, "all 6 distinct instances")
    assert make(twice, "rbf", inducing=how, n_inducing=4).n_inducing == 4


@pytest.mark.parametrize("gap", [1e-7, 1e-10, 1e-13])
def test_rows_that_are_almost_the_same_still_give_a_factor(gap):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(5, 2)), 20, axis=0) + gap * rng.normal(size=(100, 2))
    made = features_of(Bags(X, np.arange(100)), n_inducing=30, inducing="kmeans++")
    phi, kappa = made.transform(X)
    assert np.isfinite(phi).all()
    np.testing.assert_allclose((phi**2).sum(axis=1) + kappa, 1.0, rtol=1e-6)


def test_a_large_table_is_sampled_and_the_origin_says_so(bags, monkeypatch):
    monkeypatch.setattr(features, "_KMEANS_ROWS", 20)
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(3, 2)), 500, axis=0)
    made = features_of(Bags(X, np.arange(1500)), n_inducing=4, inducing="kmeans++")
    assert made.origin == "all 3 distinct instances of a sample of 80"
    assert features._sample_size(50, 3) == 1000
    assert features._sample_size(50, 10**6) == 100  # very many columns: no more memory than a few chunks


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
