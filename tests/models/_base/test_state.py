"""Fitted attributes in model files."""

import numpy as np
import pytest
from tests.saved_models import CASES, fitted, new_bags

import bagwise


@pytest.fixture
def bags():
    return new_bags()


@pytest.mark.parametrize("name", CASES)
def test_everything_fitted_comes_back(tmp_path, bags, name):
    model, bags, y = fitted(name, bags)
    model.save(tmp_path / "model")
    back = bagwise.load(tmp_path / "model")
    assert type(back) is type(model)
    np.testing.assert_array_equal(back.predict_proba(bags), model.predict_proba(bags))
    np.testing.assert_array_equal(back.predict(bags), model.predict(bags))
    np.testing.assert_array_equal(np.array(back.classes_), np.array(model.classes_))
    assert back.predict(bags).dtype == model.predict(bags).dtype
    assert (back.n_features_in_, back.label_names_) == (model.n_features_in_, model.label_names_)
    assert list(getattr(back, "feature_names_in_", [])) == list(getattr(model, "feature_names_in_", []))
    assert (back.n_iter_, back.converged_) == (model.n_iter_, model.converged_)
    np.testing.assert_array_equal(back.trace_.values, model.trace_.values)
    np.testing.assert_array_equal(back.log_evidence_, model.log_evidence_)
    np.testing.assert_array_equal(back.mean_, model.mean_)
    assert (back.features_.origin, back.features_.jitter) == (model.features_.origin, model.features_.jitter)
    assert back.score(bags, y) == model.score(bags, y)
