"""Effects of single cells, seen from the number of positives of their bag: laws and draws against simulations."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from bagwise import Bags
from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.totals import TotalBags
from bagwise.evidence.statements import count
from bagwise.evidence.totals import total_statements


def one_bag(people, k):
    people = np.array(people)
    bags = Bags(np.eye(len(people)), np.zeros(len(people)), weight=people)
    return TotalBags(total_statements(count(np.array([k]), np.array([k])), bags), torch.float64, torch.device("cpu"))


def effects(size, own, n_cells, n, rng):
    return size * (np.sqrt(1 - own) * rng.standard_normal((n, 1)) + np.sqrt(own) * rng.standard_normal((n, n_cells)))


def repeated(size, own, n):
    return Effect(*(torch.full((n,), value, dtype=torch.float64) for value in (size, own)))


PROBLEMS = [((600, 400), (-0.7, 0.5)), ((900, 100), (-0.7, 0.5)), ((300, 500, 200), (-0.7, 0.5, 0.0))]


@pytest.mark.parametrize(("people", "f"), PROBLEMS)
@pytest.mark.parametrize(("size", "own", "off"), [(0.3, 1.0, 0.02), (0.3, 0.5, 0.02), (1.0, 0.5, 0.04)])
def test_law_of_the_common_equivalent_is_that_of_simulated_effects(people, f, size, own, off):
    rng, shares, f = np.random.default_rng(0), np.array(people) / sum(people), np.array(f)
    share = (shares * norm.cdf(f + effects(size, own, len(f), 5_000, rng))).sum(1)
    grid = np.linspace(-7.0, 7.0, 4001)
    u = np.interp(share, (shares * norm.cdf(f + grid[:, None])).sum(1), grid)
    held = one_bag(people, 0)
    law = held.cells.log_law(
        torch.tensor(grid)[None],
        torch.tensor(f)[:, None],
        torch.ones(len(f), 1, dtype=torch.float64),
        repeated(size, own, 4001),
    )
    cdf = np.cumsum(torch.exp(law)[0].numpy()) * (grid[1] - grid[0])
    assert cdf[-1] == pytest.approx(1.0, abs=0.02)
    assert kstest(np.interp(u, grid, cdf), "uniform").statistic < off + 0.015


@pytest.mark.parametrize("levers", [(1.0, 1.0), (0.6, 1.3)])
def test_own_effects_of_cells_draw_the_rate_of_their_bag_to_one_half(levers):
    """The law is not centred at 0, but near −.14: where rates are far from one half, effects do not cancel out."""
    rng, shares, f, size = np.random.default_rng(0), np.array([0.5, 0.5]), np.array([1.1, 1.5]), 0.8
    share = (shares * norm.cdf(f + np.array(levers) * effects(size, 1.0, 2, 20_000, rng))).sum(1)
    grid = np.linspace(-7.0, 7.0, 4001)
    u = np.interp(share, (shares * norm.cdf(f + np.array(levers) * grid[:, None])).sum(1), grid)
    law = one_bag((500, 500), 0).cells.log_law(
        torch.tensor(grid)[None],
        torch.tensor(f)[:, None],
        torch.tensor(levers, dtype=torch.float64)[:, None],
        repeated(size, 1.0, 4001),
    )
    weight = torch.softmax(law[0], 0).numpy()
    assert np.mean(u) < -0.12
    assert weight @ grid == pytest.approx(np.mean(u), abs=0.03)


@pytest.mark.parametrize(("people", "f"), PROBLEMS)
@pytest.mark.parametrize(("size", "own"), [(0.3, 0.9), (1.0, 0.5)])
def test_draws_of_cells_have_the_moments_of_importance_sampling(people, f, size, own):
    rng, people, f, k = np.random.default_rng(0), np.array(people), np.array(f), 450
    chance = norm.cdf(f + effects(size, own, len(f), 200_000, rng))
    spread = np.sqrt((people * chance * (1 - chance)).sum(1))
    weight = np.exp(norm.logpdf(k, (people * chance).sum(1), spread))
    mean = weight @ chance / weight.sum()
    sd = np.sqrt(weight @ np.square(chance - mean) / weight.sum())
    held, ones, n = one_bag(people, k), torch.ones(len(f), 1, dtype=torch.float64), 2_000
    z, generator = torch.tensor(f)[:, None].expand(-1, n), torch.Generator().manual_seed(0)
    u, width = held.most_probable(z, ones, repeated(size, own, n))
    u = u + width * torch.randn(u.shape, generator=generator, dtype=u.dtype)
    drawn = torch.special.ndtr(held.cells.draw(u, z, ones, repeated(size, own, n), generator)).numpy()
    np.testing.assert_allclose(drawn.mean(1), mean, atol=0.15 * sd.max())
    np.testing.assert_allclose(drawn.std(1), sd, rtol=0.1)
