"""Checks of settings, keys and names."""

import numpy as np
import pandas as pd
import pytest
import torch
from tests.bad_models import model, new_bags, new_y

from bagwise import BagDataError, Bags


@pytest.fixture
def bags():
    return new_bags()


@pytest.fixture
def y(bags):
    return new_y(bags)


def test_wrong_number_of_features_at_prediction(bags, y):
    fitted = model().fit(bags.with_features(bags.X), y)
    for predict in (fitted.predict, fitted.predict_proba, fitted.predict_instances, fitted.predict_latent):
        with pytest.raises(BagDataError, match="X has 2 features, but MILGPProbit is expecting 3 features"):
            predict(bags.X[:, :2])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["u", "w", "v"], "Feature names must be in the same order as they were in fit"),
        (["u", "v", "x"], "(?s)unseen at fit time.*- x.*seen at fit time, yet now missing.*- w"),
    ],
)
def test_wrong_feature_names_at_prediction(bags, y, names, message):
    fitted = model().fit(bags, y)
    with pytest.raises(BagDataError, match=message):
        fitted.predict(bags.with_features(bags.X, names))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"] * 4, r"one key per row of X \(5 rows\), got 4 keys"),
        (np.zeros((5, 2)), r"got shape \(5, 2\)"),
        (None, r"got shape \(\)"),
        (["a", "b", None, "a", "b"], "the key of row 2 is missing"),
        ([1.0, np.nan, 2.0, 1.0, 2.0], "the key of row 1 is missing"),
        (pd.Series(["a", "b", "c", "d", pd.NA]), "the key of row 4 is missing"),
        ([1, "1", 2, 3, 4], "two different bags would both be called '1'"),
        ([[1], [2], [3], [4], [5]], r"groups: found \[1\], a list; expected numbers or text"),
        (["a", "b", {}, "a", "b"], r"groups: found \{\}, a dict; expected numbers or text"),
        (["a", "b", "\udcff", "a", "b"], r"the id of a bag is '\\udcff', which is not text"),
    ],
)
def test_group_keys_that_cannot_name_bags_are_refused(groups, message):
    with pytest.raises(BagDataError, match=message):
        Bags(np.zeros((5, 1)), groups)


def test_names_that_no_file_can_hold_are_refused():
    with pytest.raises(BagDataError, match=r"the name of a feature is 'a\\ud800', which is not text"):
        Bags(np.zeros((1, 1)), ["a"], feature_names=["a\ud800"])


def test_one_name_per_column():
    with pytest.raises(BagDataError, match="3 feature names were given for 2 columns"):
        Bags(np.zeros((1, 2)), ["a"], feature_names=["u", "v", "w"])


@pytest.mark.parametrize(
    "settings",
    [
        {"inference": "mcmc"},
        {"max_iter": 0},
        {"max_iter": 2.0},
        {"tol": -1e-3},
        {"tol": "tiny"},
        {"tol": np.inf},
        {"bias": -1.0},
        {"bias": True},
        {"bias": None},
        {"n_inducing": 0},
        {"n_inducing": "many"},
        {"kernel": "gaussian"},
        {"kernel": None},
        {"lengthscale": 0.0},
        {"lengthscale": [1.0, 2.0, 3.0]},
        {"inducing": "grid"},
        {"inducing": np.zeros((4, 5))},
        {"standardize": "yes"},
        {"jitter": -1e-6},
        {"jitter": 1.0},
        {"jitter": np.nan},
        {"verbose": "abc"},
        {"verbose": -1},
        {"verbose": None},
        {"dtype": "float16"},
        {"dtype": torch.float64},
        {"device": "abacus"},
        {"device": "meta"},
        {"device": []},
        {"random_state": "seed"},
        {"random_state": -1},
        {"random_state": np.random.default_rng(0)},
    ],
    ids=lambda settings: f"{next(iter(settings))}={str(next(iter(settings.values())))[:20]}",
)
def test_a_bad_setting_is_named(bags, y, settings):
    with pytest.raises(BagDataError, match=next(iter(settings))):
        model(**settings).fit(bags, y)
