"""Baselines that learn from fractions: against ordinary regressions where bags are pure, and against brute force."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC, SVR

from bagwise import BagDataError, BagDataWarning, Bags
from bagwise.baselines import EMProportions, InvCal, MeanMap, ProportionSVM
from bagwise.baselines.em_proportions import consistent
from bagwise.baselines.mean_map import class_means
from bagwise.baselines.proportion_svm import best_labels, odds_of_margins

RNG = np.random.default_rng(0)


def groups(n_bags=30, size=12, seed=0):
    """Two kinds of instances, two apart in both features, and how many of the second kind a bag holds."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n_bags, size)) < rng.random(n_bags)[:, None]
    rows = rng.normal(size=(n_bags * size, 2)) + 2.0 * truth.ravel()[:, None]
    return Bags(rows, np.repeat(np.arange(n_bags), size)), truth.mean(axis=1), truth.ravel().astype(int)


@pytest.mark.parametrize("method", [InvCal, MeanMap, EMProportions, ProportionSVM])
def test_individuals_are_told_apart_from_fractions_alone(method):
    bags, fraction, _ = groups()
    new, new_fraction, truth = groups(seed=1)
    model = method(random_state=0).fit(bags, fraction)
    assert roc_auc_score(truth, model.predict_instance_proba(new)[:, 1]) > 0.93
    assert np.corrcoef(model.predict_fraction(new).mean, new_fraction)[0, 1] > 0.9


def pure():
    rows = RNG.normal(size=(60, 3))
    return rows, (RNG.random(60) < expit(rows @ [1.0, -1.0, 0.5])).astype(float)


def test_mean_map_of_bags_of_one_is_a_logistic_regression():
    X, y = pure()
    model = MeanMap(C=2.0, standardize=False).fit(X, y)
    reference = LogisticRegression(C=2.0, tol=1e-8).fit(X, y)
    assert np.allclose(model.predict_instance_proba(X), reference.predict_proba(X), atol=1e-3)


def test_em_of_bags_of_one_is_a_logistic_regression():
    X, y = pure()
    model = EMProportions("linear", C=2.0, standardize=False).fit(X, y)
    reference = LogisticRegression(C=2.0, tol=1e-8).fit(X, y)
    assert np.allclose(model.predict_instance_proba(X), reference.predict_proba(X), atol=1e-3)


def test_inverse_calibration_is_a_regression_of_log_odds_on_mean_features():
    bags, fraction, _ = groups(12, 5)
    model = InvCal("linear", C=1.0, clip=0.05, standardize=False).fit(bags, fraction)
    means = np.array([X.mean(axis=0) for _, X in bags])
    reference = SVR(kernel="linear", C=1.0).fit(means, logit(np.clip(fraction, 0.05, 0.95)))
    p = expit(reference.predict(bags.X))
    assert np.allclose(model.predict_instance_proba(bags)[:, 1], p, atol=1e-3)


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


def test_consistent_beliefs_have_the_fraction_of_their_bag_and_the_order_of_the_odds():
    bags = Bags(np.zeros((9, 1)), [0, 0, 0, 1, 1, 1, 2, 2, 2])
    odds, fraction = RNG.normal(size=9), np.array([1 / 3, 0.0, 1.0])
    belief = consistent(odds, bags, fraction)
    assert np.allclose(np.add.reduceat(belief, bags.offsets[:-1]), 3 * fraction)
    assert np.array_equal(np.argsort(belief[:3]), np.argsort(odds[:3]))
    shifts = logit(belief[:3]) - odds[:3]
    assert np.allclose(shifts, shifts[0])


def test_counts_are_those_of_independent_instances():
    bags, fraction, _ = groups(8, 4)
    model = MeanMap().fit(bags, fraction)
    p = model.predict_instance_proba(bags)[:, 1].reshape(8, 4)
    law = np.zeros((8, 5))
    for held in itertools.product((0, 1), repeat=4):
        law[:, sum(held)] += np.prod(np.where(held, p, 1 - p), axis=1)
    assert np.allclose(model.predict_count_proba(bags, 1, 2), law[:, 1] + law[:, 2])
    assert np.allclose(model.predict_proba(bags)[:, 0], law[:, 0])
    found = model.predict_fraction(bags, level=0.8)
    below = np.cumsum(law, axis=1)
    assert np.allclose(found.mean, p.mean(axis=1))
    assert np.allclose(found.lower, (below < 0.1).sum(axis=1) / 4)
    assert np.allclose(found.upper, (below < 0.9).sum(axis=1) / 4)


def test_fractions_outside_of_zero_and_one_are_refused():
    bags, fraction, _ = groups(4, 3)
    with pytest.raises(BagDataError, match=r"bag '0'"):
        InvCal().fit(bags, fraction + 1.5)


def test_nothing_known_is_answered_with_one_half_and_a_warning():
    bags, fraction, _ = groups(4, 3)
    with pytest.warns(BagDataWarning, match="nothing is known about any bag"):
        model = EMProportions().fit(bags, fraction * np.nan)
    assert np.allclose(model.predict_instance_proba(bags), 0.5)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_em_of_bags_that_are_all_pure_of_one_kind_is_certain(share):
    bags, _, _ = groups(4, 3)
    assert np.allclose(EMProportions().fit(bags, np.full(4, share)).predict_fraction(bags).mean, share, atol=1e-9)


@pytest.mark.parametrize("penalty", [0.1, 3.0, 100.0])
def test_labels_of_proportion_svm_are_the_best_of_all(penalty):
    bags = Bags(np.zeros((9, 1)), [0, 0, 0, 0, 1, 1, 1, 1, 2])
    gain, fraction = RNG.normal(size=9), np.array([0.3, 1.0, 0.0])

    def cost(labels, b):
        own = bags.index == b
        return penalty * abs(labels[own].mean() - fraction[b]) - gain[own] @ labels[own]

    found = best_labels(gain, bags, fraction, penalty)
    every = [np.array(labels) for labels in itertools.product((False, True), repeat=9)]
    for b in range(3):
        assert cost(found, b) == pytest.approx(min(cost(labels, b) for labels in every))


def test_sigmoid_of_margins_has_the_fractions_of_the_bags():
    bags = Bags(np.zeros((4000, 1)), np.repeat(np.arange(20), 200))
    rng = np.random.default_rng(0)
    margin = rng.normal(size=4000) + rng.normal(size=20)[bags.index]
    fraction = expit(1.7 * margin - 0.6).reshape(20, 200).mean(axis=1)
    assert odds_of_margins(margin, bags, fraction) == pytest.approx((1.7, -0.6), abs=0.02)


def test_proportion_svm_of_bags_of_one_is_a_support_vector_machine():
    X, y = pure()
    model = ProportionSVM(C=1.0, gamma=0.5, n_starts=1, standardize=False, random_state=0).fit(X, y)
    reference = SVC(C=1.0, gamma=0.5).fit(X, y).decision_function(X)
    odds = logit(model.predict_instance_proba(X)[:, 1])
    assert np.corrcoef(odds, reference)[0, 1] == pytest.approx(1.0, abs=1e-6)
