"""Mean Map: class means by least squares; a logistic regression where bags are pure."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from tests.baselines.fraction_bags import pure

from bagwise.baselines import MeanMap
from bagwise.baselines.mean_map import class_means

RNG = np.random.default_rng(0)


def test_mean_map_of_bags_of_one_is_a_logistic_regression():
    X, y = pure()
    model = MeanMap(C=2.0, standardize=False).fit(X, y)
    reference = LogisticRegression(C=2.0, tol=1e-8).fit(X, y)
    assert np.allclose(model.predict_instance_proba(X), reference.predict_proba(X), atol=1e-3)


def test_class_means_are_solved_for_exactly_where_bags_follow_them():
    mu = np.array([[1.0, 2.0], [-3.0, 0.5]])
    fraction = np.array([0.1, 0.5, 0.8])
    means = fraction[:, None] * mu[0] + (1 - fraction)[:, None] * mu[1]
    assert np.allclose(class_means(means, fraction, np.array([3, 5, 9])), mu)


def test_class_means_are_least_squares_in_which_a_bag_counts_as_often_as_it_has_instances():
    fraction, sizes = RNG.random(4), np.array([1, 2, 5, 9])
    means = RNG.normal(size=(4, 2))
    every = np.repeat(np.column_stack([fraction, 1 - fraction]), sizes, axis=0)
    expected = np.linalg.lstsq(every, np.repeat(means, sizes, axis=0), rcond=None)[0]
    assert np.allclose(class_means(means, fraction, sizes), expected)
