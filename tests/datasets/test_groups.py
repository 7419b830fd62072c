"""Generated groups and elections: what is stated of a group is what its instances say."""

import numpy as np
import pytest

from bagwise.datasets import make_election, make_groups, vote_chance, wave
from bagwise.exceptions import BagDataError


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


def test_groups_are_as_published_by_default():
    bags, fractions, instance_y = make_groups(random_state=0)
    assert bags.sizes.tolist() == [8] * 75
    assert (fractions == 0).sum() == 62
    counts = fractions[fractions > 0] * 8
    assert set(counts) <= set(range(1, 7))
    np.testing.assert_array_equal(np.add.reduceat(instance_y, bags.offsets[:-1]) / 8, fractions)
    inside = bags.X[instance_y == 1]
    assert np.abs(inside.mean(0) - [1.0, 0.8]).max() < 0.35


def test_groups_of_given_sizes_lie_on_their_side_of_the_wave():
    bags, fractions, instance_y = make_groups([19, 16, 20], [14, 4, 17], boundary="wave", random_state=0)
    assert bags.sizes.tolist() == [19, 16, 20]
    np.testing.assert_allclose(fractions, [14 / 19, 0.25, 0.85])
    np.testing.assert_array_equal(instance_y, wave(bags.X) > 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"boundary": "circle"}, "boundary"),
        ({"n_mixed": 80}, "n_mixed=80"),
        ({"group_size": [3, 4], "positives": [1, 5]}, "positives"),
        ({"group_size": [3, 0]}, "group_size"),
    ],
)
def test_groups_that_cannot_be(settings, message):
    with pytest.raises(BagDataError, match=message):
        make_groups(**settings)


def test_an_election_is_decided_by_people_not_by_districts():
    bags, shares, votes = make_election(300, 30, random_state=0)
    assert bags.feature_names == ("age", "income", "education")
    np.testing.assert_allclose(np.add.reduceat(votes, bags.offsets[:-1]) / 30, shares)
    chance = vote_chance(bags.X)
    for low in (0.0, 0.25, 0.5, 0.75):
        some = (chance >= low) & (chance < low + 0.25)
        assert abs(votes[some].mean() - chance[some].mean()) < 0.03
    expected = np.add.reduceat(chance, bags.offsets[:-1]) / 30
    assert abs(np.mean(shares - expected)) < 0.02
    assert bags.X[:, 0].min() >= 18


def test_districts_differ_as_much_as_asked_for():
    spread = [make_election(200, 30, contrast=contrast, random_state=0)[1].std() for contrast in (0.0, 1.0, 3.0)]
    assert spread[0] < 0.12 < spread[1] < spread[2]
    with pytest.raises(BagDataError, match="contrast"):
        make_election(contrast=-1.0)
