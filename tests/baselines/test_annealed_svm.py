"""Annealed machines: beliefs that sum to what is wanted, and how the annealing ends."""

import numpy as np
import pytest
from tests.baselines.support_vectors import PLAIN, bag_max, problem

from bagwise import Bags
from bagwise.baselines import ALPSVM, AWSVM
from bagwise.baselines.annealed_svm import beliefs_with_sum


def test_beliefs_sum_to_what_is_wanted_where_they_must():
    bags = Bags(np.zeros((5, 1)), [0, 0, 0, 1, 1])
    gain = np.array([-3.0, -4.0, -1.0, 2.0, 1.0])
    at_least = beliefs_with_sum(gain, bags, np.ones(2), exactly=False)
    assert at_least[:3].sum() == pytest.approx(1.0)
    assert np.allclose(at_least[3:], 1 / (1 + np.exp(-gain[3:])))
    exact = beliefs_with_sum(gain, bags, np.ones(2), exactly=True)
    assert exact[3:].sum() == pytest.approx(1.0)
    assert np.all(np.argsort(exact[:3]) == np.argsort(gain[:3]))


def test_annealing_ends_with_one_witness_per_bag_or_the_given_share_of_positives():
    bags, y = problem()
    positive = bags[y == 1]
    witness = AWSVM(**PLAIN)
    belief = witness._believe(np.arange(positive.n_instances, dtype=float), positive, 0.01)
    assert np.allclose(np.add.reduceat(belief, positive.offsets[:-1]), 1.0)
    assert np.allclose(bag_max(witness._believe(-np.arange(positive.n_instances) / 1.0, positive, 0.01), positive), 1.0)
    half = ALPSVM(positive_share=0.5, **PLAIN)._believe(np.zeros(positive.n_instances), positive, 1.0)
    assert np.allclose(half, np.maximum(0.5, 1 / positive.sizes)[positive.index])
