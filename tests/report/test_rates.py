"""Rates of groups on the page: the table, its pictures, and the sentence about the assumption behind them."""

import numpy as np
import pandas as pd
import pytest
from tests.precincts import precincts

from bagwise import BagGP, Bags
from bagwise.aggregates import group_table
from bagwise.report import write_report
from bagwise.report.rates import rates_section, rates_table


def fitted(n_bags=12, **changes):
    bags, positive, _ = precincts(n_bags, totals=(100, 400), **changes)
    y = positive.sum(1)
    return BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, y), bags, y


def test_page_of_totals_tells_rates_bounds_and_what_rests_on_the_assumption(tmp_path):
    model, bags, y = fitted()
    page = write_report(model, bags, y, tmp_path / "page.html").read_text()
    for text in ("Rates of the groups", "Tomography", "How much rests on the assumption", "young", "Goodman"):
        assert text in page
    assert "the bounds" in rates_section(model, bags, y).sentence.lower()


def test_table_on_the_page_is_the_table_of_groups():
    model, bags, y = fitted()
    table = group_table(model, bags, y)
    rows = rates_table(table).rows
    assert [row[0] for row in rows] == ["young", "old"]
    assert float(rows[0][2]) == pytest.approx(table.mean[0, 0, 0], abs=5e-4)
    low, high = map(float, rows[1][4].split(" to "))
    assert (low, high) == pytest.approx((table.least[0, 1, 0], table.most[0, 1, 0]), abs=5e-4)


def test_shares_of_several_outcomes_have_a_row_for_each_group_and_outcome():
    bags, positive, people = precincts(10, totals=(100, 400))
    yes = positive.sum(1)
    shares = np.stack([yes, people.sum(1) - yes], axis=1) / people.sum(1)[:, None]
    y = pd.DataFrame(shares, index=list(bags.ids), columns=["yes", "no"])
    model = BagGP(evidence="fraction", learn=False, group_effect=0.2, random_state=0).fit(bags, y)
    section = rates_section(model, bags, y)
    assert [row[:2] for row in section.tables[0].rows] == [
        ("young", "yes"),
        ("young", "no"),
        ("old", "yes"),
        ("old", "no"),
    ]


def test_other_bags_than_those_of_the_fit_have_no_rates_and_the_page_says_why(tmp_path):
    model, bags, y = fitted()
    section = rates_section(model, bags[:6], y[:6])
    assert not section.tables
    assert "fitted to" in section.sentence
    assert "Tomography" not in write_report(model, bags[:6], y[:6], tmp_path / "page.html").read_text()


def test_bags_of_single_individuals_have_no_section_about_groups():
    rng = np.random.default_rng(0)
    bags, y = Bags.from_list(list(rng.normal(size=(6, 4, 2)))), np.full(6, 0.5)
    model = BagGP(evidence="fraction", learn=False, random_state=0).fit(bags, y)
    assert rates_section(model, bags, y) is None
