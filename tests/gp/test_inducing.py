"""Inducing inputs: given, chosen at random, or centres of clusters."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from tests.problems import features_of, random_bags

from bagwise import BagDataError, Bags
from bagwise.gp import inducing


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0), n_bags=12, n_features=3)


def make(bags, **changes):
    return features_of(bags, kernel="rbf", lengthscale=None, **changes)


def test_given_inducing_inputs_are_in_the_units_of_the_data(bags):
    Z = bags.X[[3, 1]]
    for given in (Z, Z.tolist(), pd.DataFrame(Z), torch.tensor(Z), scipy.sparse.csr_matrix(Z)):
        made = make(bags, inducing=given)
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
def test_bad_settings_of_inducing_inputs_are_refused(bags, changes, message):
    with pytest.raises(BagDataError, match=message):
        make(bags, **changes)


def test_random_inducing_inputs_are_instances(bags):
    made = make(bags, inducing="random", standardize=False)
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
    first = make(bags, inducing=how, random=np.random.RandomState(1)).inducing
    again = make(bags, inducing=how, random=np.random.RandomState(1)).inducing
    other = make(bags, inducing=how, random=np.random.RandomState(2)).inducing
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("how", ["random", "kmeans++"])
def test_repeated_rows_count_once(bags, how):
    twice = Bags(np.repeat(bags.X[:6], 5, axis=0), np.repeat(np.arange(6), 5))
    made = make(twice, inducing=how, n_inducing=10)
    assert (made.n_inducing, made.origin) == (6, "all 6 distinct instances")
    assert make(twice, inducing=how, n_inducing=4).n_inducing == 4


@pytest.mark.parametrize("gap", [1e-7, 1e-10, 1e-13])
def test_rows_that_are_almost_the_same_still_give_a_factor(gap):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(5, 2)), 20, axis=0) + gap * rng.normal(size=(100, 2))
    made = features_of(Bags(X, np.arange(100)), n_inducing=30, inducing="kmeans++")
    phi, kappa = made.transform(X)
    assert np.isfinite(phi).all()
    np.testing.assert_allclose((phi**2).sum(axis=1) + kappa, 1.0, rtol=1e-6)


def test_a_large_table_is_sampled_and_the_origin_says_so(bags, monkeypatch):
    monkeypatch.setattr(inducing, "_KMEANS_ROWS", 20)
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(3, 2)), 500, axis=0)
    made = features_of(Bags(X, np.arange(1500)), n_inducing=4, inducing="kmeans++")
    assert made.origin == "all 3 distinct instances of a sample of 80"
    assert inducing._sample_size(50, 3) == 1000
    assert inducing._sample_size(50, 10**6) == 100  # very many columns: no more memory than a few chunks


@pytest.mark.parametrize("shape", [(20, 7), (7, 20)])
def test_principal_directions_span_what_leading_singular_vectors_span(shape):
    pool = np.random.default_rng(0).normal(size=shape)
    for wanted in (3, 50):
        found = inducing._principal(pool, wanted, torch.device("cpu"))[0].numpy()
        right = np.linalg.svd(pool, full_matrices=False)[2][: min(wanted, 7)]
        np.testing.assert_allclose(found @ found.T, np.eye(len(right)), atol=1e-12)
        np.testing.assert_allclose(found.T @ found, right.T @ right, atol=1e-10)


@pytest.mark.parametrize("shape", [(20, 7), (7, 20)])
def test_no_principal_direction_is_made_of_rounding(shape):
    random = np.random.default_rng(0)
    pool = random.normal(size=(shape[0], 2)) @ random.normal(size=(2, shape[1]))
    found = inducing._leading(pool, 5)
    assert len(found) == 2
    np.testing.assert_allclose(pool @ found.T @ found, pool, atol=1e-10)
    assert len(inducing._leading(np.zeros(shape), 5)) == 1
