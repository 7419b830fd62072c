"""Importance of features: the one that decides is found, whatever the model."""

import numpy as np
import pytest
import scipy.sparse
from tests.sources.stored_rows import Source

from bagwise import MIPLGP, Bags, MILGPProbit, make_pipeline
from bagwise.baselines import SIL
from bagwise.datasets import make_candidate_bags
from bagwise.exceptions import BagDataError
from bagwise.inspection import importance


@pytest.fixture(scope="module")
def problem():
    """A bag is positive if "b" is large in one of its instances; the other features are noise."""
    random = np.random.default_rng(0)
    bags = Bags(random.normal(size=(240, 3)), np.repeat(np.arange(60), 4), feature_names=["a", "b", "c"])
    y = (np.maximum.reduceat(bags.X[:, 1], bags.offsets[:-1]) > 1).astype(int)
    return bags, y, MILGPProbit(n_inducing=25, random_state=0).fit(bags, y)


@pytest.mark.parametrize("score", [None, "auc", "accuracy"])
def test_the_feature_that_decides_matters_most(problem, score):
    bags, y, model = problem
    table = importance(model, bags, y, score=score, random_state=0).to_frame()
    assert table["feature"][0] == "b"
    assert table["importance"][0] > 5 * table["importance"][1]


def test_importance_is_the_fall_of_the_score_by_hand(problem):
    bags, y, model = problem
    found = importance(model, bags, y, score="accuracy", features=["c"], n_repeats=2, random_state=3)
    random = np.random.RandomState(3)
    for fall in found.falls[0]:
        X = bags.X.copy()
        X[:, 2] = X[random.permutation(len(X)), 2]
        assert fall == model.score(bags, y) - model.score(bags.with_features(X, bags.feature_names), y)
    assert found.baseline == model.score(bags, y)


def test_columns_shuffled_as_one_stay_together(problem):
    bags, y, model = problem
    found = importance(model, bags, y, features=[["a", "c"], 1], random_state=0)
    assert found.names == ("a + c", "b")
    whole = importance(model, bags, y, features=[[0, 1, 2]], score=lambda m, b, _: float(np.sort(b.X, axis=0).sum()))
    np.testing.assert_allclose(whole.falls, 0, atol=1e-9)


def test_sparse_rows_are_shuffled_like_dense_ones(problem):
    bags, y, model = problem
    sparse = bags.with_features(scipy.sparse.csr_array(bags.X), bags.feature_names)
    dense = importance(model, bags, y, n_repeats=2, random_state=0).falls
    np.testing.assert_allclose(importance(model, sparse, y, n_repeats=2, random_state=0).falls, dense, atol=1e-9)


def test_importance_in_bags_that_stay_in_a_source_is_that_of_bags_in_memory(problem):
    bags, y, model = problem
    stored = Bags.from_source(Source(bags.X), bags.sizes, ids=list(bags.ids), feature_names=bags.feature_names)
    found = importance(model, stored, y, features=[1], n_repeats=2, random_state=0).falls
    np.testing.assert_array_equal(found, importance(model, bags, y, features=[1], n_repeats=2, random_state=0).falls)


def test_pipelines_labels_by_id_and_models_of_classes_are_taken(problem):
    bags, y, _ = problem
    keyed = dict(zip(bags.ids, y, strict=True))
    pipeline = make_pipeline(MILGPProbit(n_inducing=10, max_iter=5, random_state=0)).fit(bags, y)
    assert importance(pipeline, bags, keyed, features=["b"], random_state=0).mean[0] > 0
    made = make_candidate_bags(n_bags=24, random_state=0)
    model = MIPLGP(n_rounds=3, learn=False, n_inducing=20, random_state=0).fit(made.bags, made.candidates)
    assert importance(model, made.bags, made.candidates, features=[0], n_repeats=2).falls.shape == (1, 2)
    with pytest.raises(BagDataError, match="by its accuracy only"):
        importance(model, made.bags, made.candidates, score="auc")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": ["z"]}, "no column 'z'; the bags have columns 0 to 2, named a, b, c"),
        ({"features": [3]}, "no column 3"),
        ({"score": "r2"}, "score='r2'"),
        ({"n_repeats": 1}, "at least 2"),
    ],
)
def test_what_cannot_be_measured_is_refused(problem, changes, message):
    bags, y, model = problem
    with pytest.raises(BagDataError, match=message):
        importance(model, bags, y, **changes)


def test_importance_of_a_baseline_is_measured_by_its_probabilities(problem):
    bags, y = problem[:2]
    found = importance(SIL(cv=2, random_state=0).fit(bags, y), bags, y, n_repeats=2, random_state=0)
    assert found.to_frame()["feature"][0] == "b"
