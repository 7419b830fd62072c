"""Bags, lists of arrays and plain arrays in scikit-learn's own tools."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from gpytorch import kernels as k
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample
from tests.problems import random_bags

from bagwise import Bags, MILGPProbit, PerInstance

N_BAGS = 40


@pytest.fixture(scope="module")
def bags():
    return random_bags(np.random.default_rng(0), n_bags=N_BAGS, sizes=(1, 4), n_features=2)


@pytest.fixture(scope="module")
def y(bags):
    return np.array([int((X[:, 0] > 0.4).any()) for _, X in bags])


@pytest.fixture
def model():
    return MILGPProbit(n_inducing=10, max_iter=5, bias=2.0, random_state=0)


FORMS = {
    "bags": lambda bags: bags,
    "list": lambda bags: [X for _, X in bags],
    "tuple": lambda bags: tuple(X for _, X in bags),
    "frames": lambda bags: [pd.DataFrame(X, columns=["u", "v"]) for _, X in bags],
    "tensors": lambda bags: [torch.tensor(X) for _, X in bags],
    "sparse bags": lambda bags: Bags(scipy.sparse.csr_matrix(bags.X), bags.index),
}
SINGLES = {
    "array": lambda X: X,
    "frame": lambda X: pd.DataFrame(X, columns=["u", "v"]),
    "sparse": scipy.sparse.csr_matrix,
    "rows": lambda X: X.tolist(),
}
forms = pytest.mark.parametrize("form", FORMS)


# ---------------------------------------------------------------- splitters


@pytest.mark.parametrize(
    "splitter", [KFold(4), StratifiedKFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=1)]
)
def test_splitters_cut_between_bags(bags, y, splitter):
    for train, test in splitter.split(bags, y):
        assert len(train) + len(test) <= N_BAGS
        assert not set(bags[train].ids) & set(bags[test].ids)
        np.testing.assert_array_equal(bags[test].X, np.concatenate([bags[int(b)].X for b in test]))


def test_groups_of_bags_stay_together(bags, y, model):
    patients = np.arange(N_BAGS) // 4
    scores = cross_val_score(model, bags, y, groups=patients, cv=GroupKFold(3))
    assert np.isfinite(scores).all()


@forms
def test_train_test_split_cuts_bags_of_every_form(bags, y, model, form):
    X = FORMS[form](bags)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    assert model.fit(train, y_train).predict(test).shape == y_test.shape == (10,)


def test_train_test_split_keeps_known_labels_with_their_bags(bags):
    known = bags.with_known(np.arange(bags.n_instances) % 2)
    train, test = train_test_split(known, random_state=0)
    for part in (train, test):
        np.testing.assert_array_equal(part.known, part.rows % 2)


def test_resample_draws_bags_with_replacement(bags, y, model):
    some, labels = resample(bags, y, n_samples=25, random_state=0)
    assert len(some) == 25
    assert len(set(some.ids)) < 25
    assert model.fit(some, labels).predict(bags).shape == (N_BAGS,)


# ---------------------------------------------------------------- cross-validation


@forms
def test_cross_validation_is_the_loop_written_out(bags, y, model, form):
    cv = StratifiedKFold(3)
    scores, probability = [], np.empty((N_BAGS, 2))
    for train, test in cv.split(bags, y):
        fitted = clone(model).fit(bags[train], y[train])
        probability[test] = fitted.predict_proba(bags[test])
        scores.append(accuracy_score(y[test], fitted.predict(bags[test])))
    X = FORMS[form](bags)
    np.testing.assert_allclose(cross_val_score(model, X, y, cv=cv), scores)
    found = cross_val_predict(model, X, y, cv=cv, method="predict_proba")
    np.testing.assert_allclose(found, probability, atol=1e-9)
    np.testing.assert_array_equal(cross_val_predict(model, X, y, cv=cv), (probability[:, 1] > 0.5).astype(int))


@pytest.mark.parametrize("form", SINGLES)
def test_plain_tables_are_bags_of_one(model, form):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    given = SINGLES[form](X)
    assert cross_val_score(model, given, y, cv=3).mean() > 0.8
    probability = cross_val_predict(model, given, y, cv=3, method="predict_proba")
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    model.fit(given, y)
    np.testing.assert_allclose(model.predict_proba(given), model.predict_instance_proba(given), atol=1e-12)


def test_scorers_that_ask_for_probabilities(bags, y, model):
    found = cross_validate(model, bags, y, cv=3, scoring=["roc_auc", "neg_log_loss", "average_precision", "accuracy"])
    assert found["test_roc_auc"].mean() > 0.7
    assert np.isfinite(found["test_neg_log_loss"]).all()


def test_cross_validation_takes_several_labels(bags, y, model):
    both = np.column_stack([y, 1 - y, y])
    assert cross_val_score(model, bags, both, cv=KFold(3)).shape == (3,)
    assert cross_val_predict(model, bags, both, cv=KFold(3), method="predict_proba").shape == both.shape
    found = cross_val_predict(model, bags, both, cv=KFold(3))
    assert found.shape == both.shape
    np.testing.assert_array_equal(found[:, 0], found[:, 2])


def test_a_series_keyed_by_id_is_split_with_the_bags(bags, y, model):
    keyed = pd.Series(y, index=list(bags.ids))
    plain = cross_val_score(model, bags, y, cv=StratifiedKFold(3))
    np.testing.assert_array_equal(cross_val_score(model, bags, keyed, cv=StratifiedKFold(3)), plain)
    shuffled = keyed.sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(model.fit(bags, shuffled).predict_proba(bags), model.fit(bags, y).predict_proba(bags))
    assert model.score(bags, shuffled) == model.score(bags, y) == model.score(bags, dict(shuffled))


def test_labels_may_be_missing_in_cross_validation(bags, y, model):
    some = np.where(np.arange(N_BAGS) % 5 == 0, np.nan, y)
    scores = cross_val_score(model, bags, some, cv=KFold(4, shuffle=True, random_state=0))
    assert np.isfinite(scores).all()


def test_learning_curve_takes_bags(bags, y, model):
    _, train, test = learning_curve(model, bags, y, train_sizes=[0.5, 1.0], cv=StratifiedKFold(3))
    assert train.shape == test.shape == (2, 3)


def test_two_processes_give_the_scores_of_one(bags, y, model):
    alone = cross_val_score(model, bags, y, cv=2)
    np.testing.assert_allclose(cross_val_score(model, bags, y, cv=2, n_jobs=2), alone)


# ---------------------------------------------------------------- search and pipelines


@forms
def test_grid_search_over_a_pipeline(bags, y, model, form):
    pipeline = make_pipeline(PerInstance(StandardScaler(with_mean=False)), model)
    grid = {"perinstance__transformer__with_std": [True, False], "milgpprobit__lengthscale": [0.5, 2.0]}
    search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(2), error_score="raise").fit(FORMS[form](bags), y)
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(FORMS[form](bags)).shape == (N_BAGS,)
    assert search.predict_proba(FORMS[form](bags)).shape == (N_BAGS, 2)
    assert search.best_estimator_[-1].lengthscale == search.best_params_["milgpprobit__lengthscale"]


def test_grid_search_over_constructor_parameters(bags, y, model):
    scaled = k.ScaleKernel(k.RBFKernel())
    grid = [
        {"kernel": ["rbf", "linear", scaled], "n_inducing": [5]},
        {"inducing": ["random", np.eye(2)], "bias": [0.0]},
    ]
    search = GridSearchCV(model, grid, cv=StratifiedKFold(2), scoring="roc_auc", error_score="raise").fit(bags, y)
    assert search.best_score_ > 0.6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_pipeline_learns_its_scaling_from_the_training_bags(bags, y, model):
    moved = bags.with_features(bags.X * 1000.0 + 5.0)
    pipeline = make_pipeline(PerInstance(StandardScaler()), clone(model).set_params(standardize=False))
    found = pipeline.fit(moved[:30], y[:30]).predict_proba(moved[30:])
    expected = clone(model).fit(bags[:30], y[:30]).predict_proba(bags[30:])
    np.testing.assert_allclose(found, expected, atol=1e-9)


# ---------------------------------------------------------------- estimators as objects


def test_clone_copies_a_gpytorch_kernel_and_fit_leaves_it_alone(bags, y, model):
    kernel = k.ScaleKernel(k.RBFKernel())
    kernel.outputscale = 4.0
    original = model.set_params(kernel=kernel)
    copy = clone(original)
    assert original.kernel is kernel
    assert copy.kernel is not kernel
    assert copy.kernel.outputscale.item() == pytest.approx(4.0)
    before = {name: value.clone() for name, value in kernel.named_parameters()}
    original.fit(bags, y)
    assert original.kernel is kernel
    assert all(torch.equal(before[name], value) for name, value in kernel.named_parameters())
    np.testing.assert_array_equal(copy.fit(bags, y).predict_proba(bags), original.predict_proba(bags))
    assert "ScaleKernel" in repr(original)


def test_parameters_are_only_assigned():
    strange = object()
    model = MILGPProbit(kernel=strange, n_inducing=strange, tol=strange, device=strange)
    assert all(
        value is strange for name, value in vars(model).items() if name in ("kernel", "n_inducing", "tol", "device")
    )
    assert not [name for name in vars(model) if name.endswith("_")]
    assert model.set_params(bias=1.0) is model


@pytest.mark.parametrize("weights", [None, np.r_[np.ones(20), np.zeros(20)]])
def test_score_is_accuracy_over_labelled_bags(bags, y, model, weights):
    model.fit(bags, y)
    some = np.where(np.arange(N_BAGS) % 7 == 0, np.nan, y)
    seen = ~np.isnan(some)
    expected = np.average(model.predict(bags)[seen] == y[seen], weights=None if weights is None else weights[seen])
    assert model.score(bags, some, sample_weight=weights) == pytest.approx(expected)


def test_feature_names_follow_scikit_learn(bags, y, model):
    named = Bags(pd.DataFrame(bags.X, columns=["u", "v"]), bags.index)
    model.fit(named, y)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(bags)
    model.fit(bags, y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but MILGPProbit was fitted without"):
        model.predict(named)
