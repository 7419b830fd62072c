"""Generated groups and elections: what is stated of a group is what its instances say."""

import numpy as np

from bagwise.datasets import make_election, make_groups, vote_chance


def shares(bags, truth):
    return np.add.reduceat(truth, bags.offsets[:-1]) / bags.sizes


def test_fractions_of_groups_are_those_of_their_instances():
    bags, fractions, truth = make_groups((3, 8, 5, 10), (1, 0, 5, 4), random_state=0)
    np.testing.assert_allclose(fractions, [1 / 3, 0, 1, 0.4])
    np.testing.assert_allclose(fractions, shares(bags, truth))


def test_results_of_districts_are_those_of_their_votes():
    bags, result, votes = make_election(20, (10, 60), random_state=0)
    assert len(set(bags.sizes)) > 5
    np.testing.assert_allclose(result, shares(bags, votes))


def test_votes_follow_the_person():
    bags, _, votes = make_election(400, 50, random_state=1)
    chance = vote_chance(bags.X)
    for low, high in ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0)):
        some = (chance >= low) & (chance <= high)
        assert abs(votes[some].mean() - chance[some].mean()) < 0.03
