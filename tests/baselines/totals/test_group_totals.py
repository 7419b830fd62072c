"""Bounds of rates by enumeration; what is no table of groups is refused."""

import itertools

import numpy as np
import pandas as pd
import pytest
from tests.baselines.totals.precincts import precincts

from bagwise import BagDataError, Bags
from bagwise.baselines import Goodman, King2x2, RateBounds
from bagwise.baselines.totals.group_totals import GroupTotals, bounds_of_rates


def test_bounds_are_the_extremes_of_all_tables_with_these_totals():
    people, positives = np.array([3, 5]), 4
    rates = [(a / 3, b / 5) for a, b in itertools.product(range(4), range(6)) if a + b == positives]
    least, most = bounds_of_rates(GroupTotals(people[None, :].astype(float), np.array([positives / 8])))
    assert least[0] == pytest.approx(np.min(rates, axis=0))
    assert most[0] == pytest.approx(np.max(rates, axis=0))


def test_rows_that_are_no_groups_and_shares_outside_are_refused():
    bags, share, _ = precincts(6)
    with pytest.raises(BagDataError, match="a 1 in the column of its group"):
        Goodman().fit(bags.with_features(np.asarray(bags.X) + 0.5), share)
    with pytest.raises(BagDataError, match=r"bag '2': its share is 1\.5"):
        RateBounds().fit(bags, np.where(np.arange(6) == 2, 1.5, share))
    with pytest.raises(BagDataError, match="one share of positives per bag"):
        RateBounds().fit(bags, share[:3])
    model = RateBounds().fit(bags, share)
    with pytest.raises(BagDataError, match="bag '1': its share of positives is missing"):
        model.predict_rates(bags, np.where(np.arange(6) == 1, np.nan, share))
    with pytest.raises(BagDataError, match="level"):
        model.predict_rates(bags, share, level=1.0)
    three = pd.DataFrame(np.ones((4, 3), dtype=int), columns=list("abc")).assign(precinct=np.arange(4))
    with pytest.raises(BagDataError, match="two groups; there are 3"):
        King2x2().fit(Bags.from_totals(three, "precinct", list("abc")), np.full(4, 0.5))
