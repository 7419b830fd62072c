"""Fractions and scores of models of counts."""

import numpy as np
from tests.models._base.small_models import bag_gp


def test_fractions_come_with_an_interval_around_the_expectation(problem):
    bags, y = problem
    model = bag_gp().fit(bags, y)
    found = model.predict_fraction(bags, level=0.9)
    each = model.predict_instance_proba(bags)[:, 1]
    np.testing.assert_allclose(found.mean, np.add.reduceat(each, bags.offsets[:-1]) / bags.sizes)
    assert (found.lower <= found.upper).all()
    assert (found.upper > found.lower).any()


def test_bags_that_may_or_may_not_hold_a_positive_do_not_count_in_scores(problem):
    bags, y = problem
    model = bag_gp(evidence="count").fit(bags, np.column_stack([y, np.where(y == 1, bags.sizes, 0)]))
    sure = np.column_stack([model.predict(bags), np.where(model.predict(bags) == 1, bags.sizes, 0)])
    unsure = sure.copy()
    unsure[::2] = [0, 1]
    assert model.score(bags, sure) == model.score(bags, unsure) == 1.0


def test_less_confidence_in_fractions_moves_expectations_less(problem):
    bags, y = problem
    spreads = []
    for confidence in (1.0, 1000.0):
        model = bag_gp(evidence="fraction", confidence=confidence).fit(bags, 0.2 + 0.6 * y)
        spreads.append(np.ptp(model.predict_fraction(bags).mean))
    assert spreads[0] < 0.9 * spreads[1]
