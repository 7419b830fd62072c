"""Citation-kNN: distances of bags, references and citers by hand."""

import numpy as np
import pytest
from tests.baselines.labelled_bags import BAGS, BLOCKS, Y, distances

from bagwise.baselines import CitationKNN
from bagwise.baselines.citation_knn import nearest_distances


def test_distance_of_bags_is_that_of_their_nearest_instances():
    expected = [[distances(A, B).min() for B in BLOCKS] for A in BLOCKS]
    assert np.allclose(nearest_distances(BAGS, BAGS), expected)


def test_references_and_citers_vote():
    train, y = BLOCKS[:16], Y[:16]
    model = CitationKNN(references=2, citers=3, standardize=False, random_state=0).fit(train, y)
    for new, score in zip(BLOCKS[16:], model.machines_[0].machine.scores(BAGS[16:]), strict=True):
        own = [distances(new, X).min() for X in train]
        votes = [y[b] for b in np.argsort(own)[:2]]
        for b in range(16):
            others = sorted(distances(train[b], train[a]).min() for a in range(16) if a != b)
            if sum(other < own[b] for other in others) < 3:
                votes.append(y[b])
        assert score == pytest.approx(2 * np.mean(votes) - 1)


def test_no_citers_leave_the_references():
    model = CitationKNN(references=1, citers=0, standardize=False, random_state=0).fit(BAGS, Y)
    assert np.array_equal(model.machines_[0].machine.scores(BAGS), 2.0 * Y - 1)  # every bag is nearest to itself


def test_citation_knn_tells_bags_apart_whose_instances_are_all_of_one_kind():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    bags = [rng.normal(3 * label, 0.5, size=(4, 2)) for label in y]
    assert CitationKNN(random_state=0).fit(bags[:20], y[:20]).score(bags[20:], y[20:]) == 1.0
