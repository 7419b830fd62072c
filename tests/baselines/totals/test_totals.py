"""Ecological inference: bounds by enumeration, Goodman by ordinary least squares, King's law by quadrature."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bagwise import BagDataError, Bags
from bagwise.aggregates import _bounds, _goodman
from bagwise.baselines import Goodman, King2x2, RateBounds
from bagwise.baselines.totals.group_totals import GroupTotals, bounds_of_rates
from bagwise.baselines.totals.king import RateLaw, chance_of_the_square, draw_rates, log_chance_of_shares

LAW = RateLaw(np.array([0.3, 0.8]), np.array([0.2, 0.15]), 0.4)


def precincts(n=80, seed=0, size=2000):
    """People of two groups and positives among them: rates around .3 and .7."""
    rng = np.random.default_rng(seed)
    first = (size * rng.uniform(0.05, 0.95, n)).astype(int)
    people = np.column_stack([first, size - first])
    rates = np.clip(rng.normal([0.3, 0.7], [0.08, 0.08], (n, 2)), 0, 1)
    positive = rng.binomial(people, rates)
    table = pd.DataFrame(people, columns=["few", "many"]).assign(precinct=np.arange(n))
    return Bags.from_totals(table, "precinct", ["few", "many"]), positive.sum(1) / size, positive / people


def test_bounds_are_the_extremes_of_all_tables_with_these_totals():
    people, positives = np.array([3, 5]), 4
    rates = [(a / 3, b / 5) for a, b in itertools.product(range(4), range(6)) if a + b == positives]
    least, most = bounds_of_rates(GroupTotals(people[None, :].astype(float), np.array([positives / 8])))
    assert least[0] == pytest.approx(np.min(rates, axis=0))
    assert most[0] == pytest.approx(np.max(rates, axis=0))


def test_bounds_hold_the_true_rates_and_are_those_of_group_table():
    bags, share, truth = precincts()
    found = RateBounds().fit(bags, share).predict_rates(bags, share)
    assert (found.lower <= truth + 1e-9).all()
    assert (truth <= found.upper + 1e-9).all()
    member = np.asarray(bags.X).argmax(axis=1)
    least, most = _bounds(bags, member, (share * bags.totals)[:, None])
    assert (found.lower * bags.weight.reshape(-1, 2)).ravel() == pytest.approx(least[:, 0], abs=1e-6)
    assert (found.upper * bags.weight.reshape(-1, 2)).ravel() == pytest.approx(most[:, 0], abs=1e-6)


def test_goodman_is_least_squares_of_shares_on_shares():
    bags, share, _ = precincts()
    model = Goodman().fit(bags, share)
    x = bags.weight.reshape(-1, 2)[:, 0] / 2000
    line = stats.linregress(x, share)  # all bags are of one size: rates at x = 1 and x = 0
    assert model.rates_ == pytest.approx([line.intercept + line.slope, line.intercept])
    assert model.rates_ == pytest.approx(_goodman(bags, np.asarray(bags.X).argmax(axis=1), share[:, None])[:, 0])
    found = model.predict_rates(bags, share, level=0.9)
    reach = stats.t.ppf(0.95, 78) * line.intercept_stderr
    assert found.overall_upper[1] - found.overall_mean[1] == pytest.approx(reach)


@pytest.mark.parametrize("x", [0.0, 0.2, 0.5, 0.7, 1.0])
def test_likelihood_of_king_is_the_density_of_the_share_under_the_cut_law(x):
    """d/dt P(x b + (1 - x) w ≤ t) over the unit square, by a grid of the two rates."""
    grid = (np.arange(1500) + 0.5) / 1500
    b, w = np.meshgrid(grid, grid, indexing="ij")
    cov = np.array([[0.04, 0.4 * 0.03], [0.4 * 0.03, 0.0225]])
    density = stats.multivariate_normal([0.3, 0.8], cov).pdf(np.stack([b, w], axis=-1))
    mass = density / density.sum()
    t, h = 0.55, 0.02
    share = x * b + (1 - x) * w
    by_grid = mass[(share > t - h) & (share <= t + h)].sum() / (2 * h)
    assert np.exp(log_chance_of_shares(LAW, np.array([x]), np.array([t]))) == pytest.approx(by_grid, rel=0.02)


@pytest.mark.parametrize("sd", [0.5, 0.05, 0.002])
def test_chance_of_the_square_is_a_product_where_rates_are_independent(sd):
    law = RateLaw(np.array([0.98, 0.4]), np.array([sd, sd]), 0.0)
    first, second = (stats.norm.cdf([0, 1], mean, sd) for mean in law.mean)
    assert chance_of_the_square(law) == pytest.approx((first[1] - first[0]) * (second[1] - second[0]), rel=1e-9)


def test_chance_of_the_square_is_that_of_two_normal_numbers():
    cov = np.array([[0.04, 0.4 * 0.03], [0.4 * 0.03, 0.0225]])
    expected = stats.multivariate_normal([0.3, 0.8], cov).cdf([1, 1], lower_limit=[0, 0])
    assert chance_of_the_square(LAW) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("people", "t"), [((300.0, 700.0), 0.6), ((800.0, 200.0), 0.35), ((500.0, 500.0), 0.9)])
def test_rates_are_drawn_along_the_line_by_the_cut_law(people, t):
    totals = GroupTotals(np.array([people]), np.array([t]))
    x = people[0] / 1000
    drawn = np.concatenate([draw_rates(LAW, totals, np.random.RandomState(seed)) for seed in range(800)])
    assert x * drawn[:, 0] + (1 - x) * drawn[:, 1] == pytest.approx(np.full(800, t), abs=1e-8)
    least, most = bounds_of_rates(totals)
    b = np.linspace(least[0, 0], most[0, 0], 4001)
    cov = np.array([[0.04, 0.4 * 0.03], [0.4 * 0.03, 0.0225]])
    density = stats.multivariate_normal([0.3, 0.8], cov).pdf(np.column_stack([b, (t - x * b) / (1 - x)]))
    mean = np.sum(b * density) / density.sum()
    sd = np.sqrt(np.sum(np.square(b - mean) * density) / density.sum())
    assert drawn[:, 0].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(800))
    assert drawn[:, 0].std() == pytest.approx(sd, rel=0.15)


def test_king_covers_rates_that_do_not_go_with_composition():
    bags, share, truth = precincts()
    found = King2x2(n_draws=100, random_state=0).fit(bags, share).predict_rates(bags, share, level=0.9)
    inside = (found.lower <= truth) & (truth <= found.upper)
    assert 0.8 < inside.mean() <= 1.0
    assert found.overall_mean == pytest.approx([0.3, 0.7], abs=0.04)
    assert np.abs(found.mean - truth).mean() < np.abs(Goodman().fit(bags, share).rates_ - truth).mean()


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
