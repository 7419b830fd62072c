"""Intervals of large totals, and what they cost."""

import numpy as np
import pytest
from tests.precincts import precincts

from bagwise import BagGP
from bagwise.exceptions import BagDataError


def test_interval_of_a_large_total_is_that_of_its_repeated_rows():
    bags, positive, _ = precincts(12, totals=(100, 200))
    model = BagGP(evidence="count", learn=False, group_effect=0.3, random_state=0).fit(bags, positive.sum(1))
    few, many = model.predict_fraction(bags[:4]), model.predict_fraction(bags[:4].repeated())
    np.testing.assert_allclose(few.mean, many.mean, atol=1e-12)
    np.testing.assert_allclose(few.lower, many.lower, atol=0.012)
    np.testing.assert_allclose(few.upper, many.upper, atol=0.012)
    chances = [model.predict_count_proba(some, 40, 150) for some in (bags[:4], bags[:4].repeated())]
    np.testing.assert_allclose(*chances, atol=0.01)


def test_a_million_people_cost_as_many_rows_as_there_are_cells():
    bags, positive, _ = precincts(6, totals=(200_000, 400_000))
    model = BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, positive.sum(1))
    assert model.posterior_.mean.shape[0] <= 3
    assert np.isfinite(model.predict_fraction(bags).upper).all()
    with pytest.raises(BagDataError, match="too many to give each a row"):
        BagGP(evidence="count", inference="vi").fit(bags, positive.sum(1))
