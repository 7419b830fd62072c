"""Reading y as evidence: whose count is pinned down, who holds a positive, which labels stay labels."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.evidence.reading import CountReading, holds_positive, read_counts
from bagwise.evidence.statements import Evidence, count, fraction, label

SIZE = 4


def bags_of(n_bags):
    return Bags(np.arange(SIZE * n_bags, dtype=float)[:, None], np.repeat(np.arange(n_bags), SIZE))


def read(statement, **reading):
    bags = bags_of(len(statement))
    return read_counts(statement, bags, bags, CountReading(**reading))


def test_a_bag_holds_a_positive_only_where_that_is_said():
    said = Evidence.concat([label([0, 1, np.nan]), fraction([0.0, 0.3]), count([0, 0, 1], [2, 0, 3])])
    np.testing.assert_array_equal(holds_positive(said), [0, 1, np.nan, 0, 1, np.nan, 0, 1])


@pytest.mark.parametrize(
    ("statement", "tight"),
    [
        (fraction([0.5], SIZE), False),
        (fraction([0.5], SIZE + 1), True),
        (fraction([0.0], 1000.0), False),
        (count([1], [SIZE - 1]), True),
        (count([0], [SIZE - 1]), False),
        (count([1], [SIZE]), False),
        (label([1]), False),
    ],
)
def test_counts_are_pinned_down_only_from_both_sides(statement, tight):
    assert read(statement).tight is tight


def test_labels_that_may_be_wrong_speak_through_tables():
    noisy = read(label([0, 1]), label_noise=0.1).evidence
    assert np.isnan(noisy.labels).all()
    assert noisy.by_table[0].all()
    for sure in (read(label([0, 1])), read(label([0, 1]), label_noise=0.1, closed_noise=True)):
        np.testing.assert_array_equal(sure.evidence.labels, [[0], [1]])
        assert not sure.evidence.by_table[0].any()
