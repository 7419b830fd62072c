"""Tables of groups, what stands beside them, and the check of the assumption that they rest on."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from bagwise import BagGP, Bags
from bagwise.aggregates import CLEAR, composition_check, group_table
from bagwise.exceptions import BagDataError, BagDataWarning

GROUPS = ["young", "old"]


def precincts(n, tied=0.0, seed=0, totals=(100, 400)):
    """Bags of two groups and the number of positives; ``tied`` makes rates go with the composition."""
    rng = np.random.default_rng(seed)
    people = rng.integers(*totals, (n, 2))
    people[:, 0] = people[:, 0] * rng.uniform(0.05, 1.0, n)
    share = people[:, 0] / people.sum(1)
    positive = rng.binomial(people, norm.cdf(norm.ppf([0.3, 0.6]) + tied * (share[:, None] - share.mean())))
    table = pd.DataFrame(people, columns=GROUPS).assign(precinct=[f"p{b}" for b in range(n)])
    return Bags.from_totals(table, "precinct", GROUPS), positive, people


@pytest.mark.parametrize("tied", [3.0, -1.0])
def test_composition_check_warns_where_rates_go_with_the_composition(tied):
    bags, positive, _ = precincts(40, tied=tied)
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=0.05, random_state=0).fit(bags, y)
    with pytest.warns(BagDataWarning, match="rests on an assumption that the data do not support"):
        check = composition_check(model, bags, y, n_draws=50)
    assert check.differs.any()
    assert "Only the bounds" in check.sentence
    assert check.with_composition.groups == check.without.groups == tuple(GROUPS)


def test_composition_check_is_quiet_where_rates_are_the_same_everywhere():
    bags, positive, _ = precincts(40)
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=0.05, random_state=0).fit(bags, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BagDataWarning)
        check = composition_check(model, bags, y, n_draws=50)
    assert not check.differs.any()
    assert "support, but cannot prove" in check.sentence
    assert check.gain < -CLEAR


def test_composition_check_does_not_warn_where_the_log_evidence_clearly_prefers_the_assumption():
    bags, positive, _ = precincts(40, tied=3.0)
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=0.05, random_state=0).fit(bags, y)
    with pytest.warns(BagDataWarning, match="do not support"):
        gain = composition_check(model, bags, y, n_draws=50).gain
    model.log_evidence_ += gain + CLEAR + 0.1
    check = composition_check(model, bags, y, n_draws=50)
    assert not check.differs.any()
    assert "the data support, but cannot prove" in check.sentence
    assert f"−{CLEAR + 0.1:.1f} nats" in check.sentence


def test_to_arviz_holds_the_draws_by_set_group_and_outcome():
    pytest.importorskip("arviz")
    bags, positive, _ = precincts(10)
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, y)
    table = group_table(model, bags, y, n_draws=30)
    stored = table.to_arviz()
    np.testing.assert_array_equal(np.asarray(stored["posterior"]["rate"])[0], table.draws)


def test_set_that_names_an_unknown_bag_is_refused():
    bags, positive, _ = precincts(5)
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, y)
    with pytest.raises(BagDataError, match="nowhere"):
        group_table(model, bags, y, sets={"west": ["nowhere"]})


def test_fraction_given_an_exact_number_is_that_number_and_given_a_range_lies_in_it():
    bags, positive, people = precincts(12)
    y, total = positive.sum(1), people.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=(0.2, 0.2), random_state=0).fit(bags[:8], y[:8])
    new, stated = bags[8:], y[8:]
    exact = model.predict_fraction(new, given=stated)
    np.testing.assert_allclose(exact.mean, stated / total[8:], atol=1e-9)
    ranged = model.predict_fraction(new, given=np.stack([stated - 5, stated + 5], axis=1))
    assert ((ranged.lower >= (stated - 5) / total[8:] - 1e-9) & (ranged.upper <= (stated + 5) / total[8:] + 1e-9)).all()
    inside = model.predict_count_proba(new, stated - 5, stated + 5, given=np.stack([stated - 5, stated + 5], axis=1))
    np.testing.assert_allclose(inside, 1.0)


def test_range_for_a_new_precinct_holds_the_effects_of_precincts():
    """A new precinct of one group: its number is a binomial one of a chance that the effects move."""
    bags, positive, _ = precincts(20, totals=(2_000, 4_000))
    y = positive.sum(1)
    wide, narrow = (
        BagGP(evidence="count", learn=False, group_effect=effect, random_state=0).fit(bags, y)
        for effect in ((0.0, 0.5), (0.0, 0.01))
    )
    one = Bags(np.array([[0.0, 1.0]]), ["new"], weight=[5_000], feature_names=GROUPS)
    answers = [model.predict_fraction(one, 0.9) for model in (wide, narrow)]
    widths = [float((answer.upper - answer.lower)[0]) for answer in answers]
    centre = norm.ppf(float(answers[1].mean[0]))
    expected = norm.cdf(centre + 1.645 * 0.5) - norm.cdf(centre - 1.645 * 0.5)
    assert widths[0] == pytest.approx(expected, rel=0.2)
    assert widths[1] < 0.2 * widths[0]
    assert widths[1] > np.subtract(*binom.ppf([0.95, 0.05], 5_000, 0.6)) / 5_000 - 0.005


def test_bounds_of_a_precinct_that_states_nothing_are_nobody_and_everybody():
    bags, positive, people = precincts(6)
    y = positive.sum(1).astype(float)
    y[2] = np.nan
    model = BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, y)
    each = group_table(model, bags, y, sets="bags", n_draws=20)
    np.testing.assert_allclose(each.least[2, :, 0], 0.0)
    np.testing.assert_allclose(each.most[2, :, 0], 1.0)
    whole = group_table(model, bags, y, n_draws=20)
    weights = people / people.sum(0)
    np.testing.assert_allclose(whole.most[0, :, 0], (weights * each.most[:, :, 0]).sum(0))
