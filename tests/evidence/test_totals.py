"""Statements about totals of chosen bags."""

import numpy as np
from tests.precincts import KINDS, precincts

from bagwise.evidence.statements import Evidence
from bagwise.evidence.totals import total_statements
from bagwise.inference.laplace.totals import Totals


def test_statements_of_chosen_bags_are_theirs():
    bags, positive, people = precincts(6, totals=(3, 90))
    makers = [*KINDS.values(), KINDS["count"], KINDS["count"]]
    y = Evidence.concat([make(positive.sum(1), people.sum(1))[[bag]] for bag, make in enumerate(makers)])
    whole, chosen = total_statements(y, bags), np.array([1, 2, 5])
    some, wanted = whole.of_bags(chosen), total_statements(y[chosen], bags[chosen])
    for name in ("kind", "mean", "variance", "free", "offsets", "small"):
        np.testing.assert_array_equal(getattr(some, name), getattr(wanted, name))
    assert len(Totals(bags, (whole,)).stating()) == 6
