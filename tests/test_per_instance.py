"""Transformers of rows as transformers of bags."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler

from bagwise import BagDataError, Bags, MILGPProbit, PerInstance
from bagwise.io import bag_table


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(9, 3)) * [1.0, 10.0, 0.1] + 5.0


@pytest.fixture
def bags(X):
    return Bags(X, list("abacbcabc"), feature_names=["u", "v", "w"], known=np.arange(9) % 2)


def test_rows_are_transformed_and_the_rest_kept(bags):
    found = PerInstance(StandardScaler()).fit(bags).transform(bags)
    np.testing.assert_allclose(found.X, StandardScaler().fit_transform(bags.X))
    assert (found.ids, found.feature_names) == (bags.ids, bags.feature_names)
    np.testing.assert_array_equal(found.known, bags.known)
    np.testing.assert_array_equal(found.rows, bags.rows)


def test_what_was_learned_on_training_bags_is_applied_to_others(bags):
    scaler = PerInstance(StandardScaler()).fit(bags[:2])
    expected = StandardScaler().fit(bags[:2].X).transform(bags[2].X)
    np.testing.assert_allclose(scaler.transform(bags[2]).X, expected)


@pytest.mark.parametrize("give", [lambda bags: [rows for _, rows in bags], lambda bags: np.array(bags.X)])
def test_lists_and_plain_arrays(bags, give):
    found = PerInstance(StandardScaler()).fit_transform(give(bags))
    np.testing.assert_allclose(found.X, StandardScaler().fit_transform(bags.X))
    assert found.feature_names is None


def test_names_of_new_columns(bags, X):
    assert PerInstance(PCA(2)).fit_transform(bags).feature_names == ("pca0", "pca1")
    assert PerInstance(PCA(2)).fit_transform(Bags(X, np.arange(9))).feature_names is None
    nameless = PerInstance(FunctionTransformer(lambda X: np.asarray(X)[:, :2])).fit_transform(bags)
    assert (nameless.n_features, nameless.feature_names) == (2, None)


def test_columns_may_be_chosen_by_name(bags):
    chosen = ColumnTransformer([("scaled", StandardScaler(), ["v"])], remainder="passthrough")
    found = PerInstance(chosen).fit_transform(bags)
    assert found.feature_names == ("scaled__v", "remainder__u", "remainder__w")
    np.testing.assert_allclose(found.X[:, 0], StandardScaler().fit_transform(bags.X[:, [1]])[:, 0])


def test_other_columns_are_refused_even_where_the_transformer_would_hide_them(bags):
    fitted = PerInstance(PCA(2)).fit(bags)
    with pytest.raises(BagDataError, match="same order"):
        fitted.transform(bags.with_features(bags.X[:, ::-1], ["w", "v", "u"]))
    with pytest.raises(BagDataError, match="X has 2 features, but PerInstance is expecting 3"):
        PerInstance(PCA(2)).fit(bags.X).transform(bags.X[:, :2])


def test_rows_may_not_get_lost(bags):
    with pytest.raises(BagDataError, match=r"one row per instance \(9\), got 8"):
        PerInstance(FunctionTransformer(lambda X: X[1:])).fit_transform(bags)


def test_sparse_rows_stay_sparse_in_a_transformer(bags, X):
    sparse = Bags(scipy.sparse.csr_matrix(X), list("abacbcabc"), feature_names=["u", "v", "w"])
    found = PerInstance(MaxAbsScaler()).fit_transform(sparse)
    assert scipy.sparse.issparse(found.X)
    np.testing.assert_allclose(found.X.toarray(), MaxAbsScaler().fit_transform(bags.X))
    assert found.feature_names == ("u", "v", "w")


def test_missing_features_can_be_filled_in_before_the_model(bags, X):
    X[4, 1] = np.nan
    holed = Bags(X, list("abacbcabc"))
    model = make_pipeline(PerInstance(SimpleImputer()), MILGPProbit(max_iter=2, random_state=0))
    assert np.isfinite(model.fit(holed, [1, 0, 1]).predict_proba(holed)).all()


def test_the_bags_are_not_changed_by_a_transformer_that_works_in_place(bags):
    before = bags.X.copy()
    PerInstance(StandardScaler(copy=False)).fit_transform(bags)
    np.testing.assert_array_equal(bags.X, before)


def test_frames_from_scikit_learn_are_understood(bags, X):
    with sklearn.config_context(transform_output="pandas"):
        found = PerInstance(StandardScaler()).fit_transform(bags)
        plain = PerInstance(StandardScaler()).fit_transform(Bags(X, np.arange(9)))
    assert found.feature_names == ("u", "v", "w")
    assert plain.feature_names is None


def test_per_instance_clones_sets_parameters_and_says_that_it_is_not_fitted(bags):
    scaler = PerInstance(StandardScaler())
    assert clone(scaler).set_params(transformer__with_mean=False).get_params()["transformer__with_mean"] is False
    with pytest.raises(NotFittedError):
        scaler.transform(bags)
    fitted = scaler.fit(bags)
    assert scaler.transformer is not fitted.transformer_
    assert not hasattr(scaler.transformer, "mean_")
    assert fitted.n_features_in_ == 3
    assert list(fitted.feature_names_in_) == ["u", "v", "w"]
    assert isinstance(fitted.transform(pd.DataFrame(bags.X, columns=["u", "v", "w"])), Bags)


@pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output_makes_frames_of_ordinary_tables_as_scikit_learn_does(X, kind, frame):
    table = pd.DataFrame(X, columns=["u", "v", "w"])
    for rows in (table, X):
        found = PerInstance(PCA(2, random_state=0)).set_output(transform=kind).fit_transform(rows)
        expected = PCA(2, random_state=0).set_output(transform=kind).fit_transform(rows)
        assert type(found) is type(expected) is frame
        assert list(found.columns) == list(expected.columns)
        np.testing.assert_allclose(found.to_numpy(), expected.to_numpy())


def test_set_output_leaves_bags_as_bags(bags):
    step = PerInstance(PCA(2)).set_output(transform="polars")
    bags = bags.with_known(None)
    for given in (bags, [rows for _, rows in bags]):
        found = clone(step).fit_transform(given)
        assert (type(found), found.frame_kind) == (Bags, "polars")
        assert found.sizes.tolist() == bags.sizes.tolist()
    model = make_pipeline(step, MILGPProbit(n_inducing=3, random_state=0)).set_output(transform="polars")
    made = model.fit(bags, [0, 1, 0])
    assert isinstance(bag_table(made[-1], made[0].transform(bags)), pl.DataFrame)
    np.testing.assert_allclose(made.predict_proba(bags), made.set_output(transform="default").predict_proba(bags))


def test_set_output_refuses_what_cannot_be_a_frame(X):
    with pytest.raises(BagDataError, match="transform='arrow': expected"):
        PerInstance(PCA(2)).set_output(transform="arrow")
    sparse = PerInstance(MaxAbsScaler()).set_output(transform="pandas").fit(X)
    with pytest.raises(BagDataError, match="the rows are sparse"):
        sparse.transform(scipy.sparse.csr_matrix(X))
    assert sparse.set_output().set_output(transform=None)._output() == "pandas"


def test_set_config_of_scikit_learn_is_followed(X):
    with sklearn.config_context(transform_output="pandas"):
        found = PerInstance(StandardScaler()).fit_transform(X)
    assert list(found.columns) == ["x0", "x1", "x2"]
