"""MILES: likeness to concepts, and how few are kept."""

import numpy as np
from tests.baselines.labelled_bags import BAGS, BLOCKS, Y, distances

from bagwise.baselines import MILES
from bagwise.baselines.miles import likeness


def test_likeness_is_that_of_the_nearest_instance():
    concepts = np.random.default_rng(1).normal(size=(7, BAGS.n_features))
    expected = [[np.exp(-0.3 * distances(X, c[None, :]).min() ** 2) for c in concepts] for X in BLOCKS]
    assert np.allclose(likeness(BAGS, concepts, 0.3), expected)


def test_miles_keeps_few_concepts():
    machine = MILES(C=1.0, cv=2, random_state=0).fit(BAGS, Y).machines_[0].machine
    assert 1 <= len(machine.concepts) < len(BAGS)
