"""Decisions and scores of labels."""

import numpy as np
import pytest
from tests.models._base.small_models import probit


def test_the_second_class_is_the_positive_one(problem):
    bags, y = problem
    words = np.where(y == 1, "sick", "healthy")
    model = probit().fit(bags, words)
    assert model.classes_.tolist() == ["healthy", "sick"]
    found = model.predict_proba(bags)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found[y == 1, 1].mean() > found[y == 0, 1].mean()
    assert (model.predict(bags) == np.where(found[:, 1] > 0.5, "sick", "healthy")).all()


def test_labels_in_columns_are_decided_at_one_half(problem):
    bags, y = problem
    model = probit().fit(bags, np.column_stack([y, 1 - y]))
    found = model.predict_proba(bags)
    assert ((found > 0.34) & (found < 0.5)).any()  # or the border would not be seen
    np.testing.assert_array_equal(model.predict(bags), found > 0.5)


def test_scores_leave_out_missing_labels_and_follow_the_weights(problem, fitted):
    bags, y = problem
    right = fitted.predict(bags) == y
    assert 0 < right.sum() < len(y)
    half = np.where(np.arange(len(y)) % 2, y, np.nan)
    assert fitted.score(bags, half) == pytest.approx(right[1::2].mean())
    weights = np.where(right, 3.0, 1.0)
    assert fitted.score(bags, y, sample_weight=weights) == pytest.approx(np.average(right, weights=weights))
