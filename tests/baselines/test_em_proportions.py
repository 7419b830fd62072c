"""EM with proportions: consistent beliefs; a logistic regression where bags are pure."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from tests.baselines.fraction_bags import groups, pure

from bagwise import Bags
from bagwise.baselines import EMProportions
from bagwise.baselines.em_proportions import consistent

RNG = np.random.default_rng(0)


def test_em_of_bags_of_one_is_a_logistic_regression():
    X, y = pure()
    model = EMProportions("linear", C=2.0, standardize=False).fit(X, y)
    reference = LogisticRegression(C=2.0, tol=1e-8).fit(X, y)
    assert np.allclose(model.predict_instance_proba(X), reference.predict_proba(X), atol=1e-3)


def test_consistent_beliefs_have_the_fraction_of_their_bag_and_the_order_of_the_odds():
    bags = Bags(np.zeros((9, 1)), [0, 0, 0, 1, 1, 1, 2, 2, 2])
    odds, fraction = RNG.normal(size=9), np.array([1 / 3, 0.0, 1.0])
    belief = consistent(odds, bags, fraction)
    assert np.allclose(np.add.reduceat(belief, bags.offsets[:-1]), 3 * fraction)
    assert np.array_equal(np.argsort(belief[:3]), np.argsort(odds[:3]))
    shifts = logit(belief[:3]) - odds[:3]
    assert np.allclose(shifts, shifts[0])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_em_of_bags_that_are_all_pure_of_one_kind_is_certain(share):
    bags, _, _ = groups(4, 3)
    assert np.allclose(EMProportions().fit(bags, np.full(4, share)).predict_fraction(bags).mean, share, atol=1e-9)
