"""King's law by quadrature, and whether its intervals cover."""

import numpy as np
import pytest
from scipy import stats
from tests.baselines.totals.precincts import precincts

from bagwise.baselines import Goodman, King2x2
from bagwise.baselines.totals.group_totals import GroupTotals, bounds_of_rates
from bagwise.baselines.totals.king import RateLaw, chance_of_the_square, draw_rates, log_chance_of_shares

LAW = RateLaw(np.array([0.3, 0.8]), np.array([0.2, 0.15]), 0.4)


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
