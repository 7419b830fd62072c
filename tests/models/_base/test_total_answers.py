"""Answers about totals: tables of groups, shares, ranges."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.elections import one_repeat
from tests.precincts import precincts

from bagwise import BagGP
from bagwise.aggregates import group_table
from bagwise.exceptions import BagDataError


def test_table_holds_bounds_and_draws_that_agree_with_the_totals():
    bags, positive, people = precincts(20, totals=(5, 300))
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, random_state=0).fit(bags, y)
    each = group_table(model, bags, y, sets="bags", n_draws=60)
    numbers = each.draws[..., 0] * people
    np.testing.assert_allclose(numbers.sum(2), np.tile(y, (60, 1)), atol=1e-6)
    assert ((each.draws[..., 0] >= each.least[..., 0] - 1e-9) & (each.draws[..., 0] <= each.most[..., 0] + 1e-9)).all()
    truth = positive / people
    assert ((truth >= each.least[..., 0] - 1e-9) & (truth <= each.most[..., 0] + 1e-9)).all()
    whole = group_table(model, bags, y, sets={"west": ["p0", "p1"], "east": ["p5"]}, n_draws=60)
    assert list(whole.to_frame()["set"].unique()) == ["west", "east"]
    assert whole.goodman[0, 0, 0] == pytest.approx(0.25, abs=0.2)


def test_precinct_given_its_number_holds_a_positive_if_the_number_is_above_zero():
    bags, positive, _ = precincts(8, totals=(5, 300))
    y = positive.sum(1)
    y[3] = 0
    model = BagGP(evidence="count", group_effect=0.2, learn=False, random_state=0).fit(bags, y)
    found = model.predict_proba(bags, given=y)
    np.testing.assert_allclose(found, np.column_stack([y == 0, y > 0]), atol=1e-12)


def test_shares_of_several_outcomes_add_up_to_one():
    rng = np.random.default_rng(0)
    bags, _, people = precincts(15, totals=(50, 300))
    chance = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    votes = np.stack([[rng.multinomial(n, p) for n, p in zip(row, chance, strict=True)] for row in people]).sum(1)
    y = pd.DataFrame(votes / votes.sum(1, keepdims=True), columns=["red", "blue", "none"], index=bags.ids)
    model = BagGP(evidence="fraction", confidence=1e5, learn=False, random_state=0).fit(bags, y)
    table = group_table(model, bags, y, n_draws=50)
    assert table.outcomes == ("red", "blue", "none")
    np.testing.assert_allclose(table.draws.sum(3), 1.0, atol=1e-6)
    np.testing.assert_allclose(table.mean[0], chance, atol=0.1)
    with pytest.raises(BagDataError, match="outcomes add up to"):
        BagGP(evidence="fraction").fit(bags, y.to_numpy() * 1.5)


@pytest.mark.statistical
@pytest.mark.parametrize("effect", [0.0, 0.3, 1.0])
def test_ranges_cover_what_they_promise_on_precincts_drawn_from_the_model(effect):
    """Cells of one sample stand and fall together: with 48 samples their mean is known to about .02.

    Both rates of a sample are right or wrong together: of 48 with a chance of .9 less than 36 are right once in 1,500.
    """
    found = np.array([one_repeat(50, effect, seed)[:3] for seed in range(48)])
    cells, rates, new = found.mean(0)
    assert 0.83 < cells < 0.97
    assert 36 / 48 <= rates <= 1.0
    assert 0.85 < new < 0.98
