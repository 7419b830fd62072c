"""Classes of bags, given their candidates and in any company."""

import numpy as np
import pytest
from tests.models.class_problems import NAMES, new_fitted, problem


@pytest.fixture(scope="module")
def fitted():
    return new_fitted()


def test_given_candidates_settle_which_of_them_is_true(fitted):
    bags, table, y, truth = problem()
    sets = [set(NAMES[row == 1]) for row in table]
    p = fitted.predict_proba(bags, given=sets)
    assert (p[table == 0] == 0).all()
    assert np.mean(p.argmax(1) == y) > 0.9
    q = fitted.predict_instance_proba(bags, given=sets)
    np.testing.assert_allclose(q.sum(1), 1.0, atol=1e-9)
    assert (q[:, :3][(table == 0)[bags.index]] == 0).all()
    shows = np.add.reduceat(q[:, :3].sum(1), bags.offsets[:-1])
    assert (shows > 1.0 - 1e-9).all()  # at least one instance is expected to show the class
    assert np.mean(q.argmax(1) == truth) > 0.9


def test_answers_about_classes_do_not_depend_on_company(fitted):
    new = problem(12, seed=2)[0]
    alone, together = new[[5]], fitted.predict_proba(new)[[5]]
    np.testing.assert_allclose(fitted.predict_proba(alone), together, atol=1e-9)
    rows = slice(*new.offsets[5:7])
    np.testing.assert_allclose(
        fitted.predict_instance_proba(alone), fitted.predict_instance_proba(new)[rows], atol=1e-9
    )
    every = np.ones((12, 3))
    np.testing.assert_allclose(
        fitted.predict_instance_proba(alone, given=every[[5]]),
        fitted.predict_instance_proba(new, given=every)[rows],
        atol=1e-9,
    )
