"""The proportion SVM against brute force, and an ordinary machine where bags are pure."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.svm import SVC
from tests.baselines.fraction_bags import pure

from bagwise import Bags
from bagwise.baselines import ProportionSVM
from bagwise.baselines.proportion_svm import best_labels, odds_of_margins

RNG = np.random.default_rng(0)


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
