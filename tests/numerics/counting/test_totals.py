"""Laws of numbers of positives among rows that stand for many: exact for small totals, by a saddle point for large."""

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from bagwise.numerics.counting.totals import SmallTotals, log_between, log_total_density
from bagwise.numerics.segments import Segments

Z, SHARES = np.array([-1.1, 0.4, 1.3]), (0.5, 0.3, 0.2)


def convolved(z, weight):
    law = np.array([1.0])
    for score, people in zip(z, weight, strict=True):
        law = np.convolve(law, binom.pmf(np.arange(people + 1), people, norm.cdf(score)))
    return law


def every_count(total):
    """One bag for every count that three rows of this total can have."""
    weight = np.random.default_rng(total).multinomial(total, SHARES)
    n = total + 1
    z, people = torch.tensor(np.tile(Z, n))[:, None], torch.tensor(np.tile(weight, n)).double()
    return convolved(Z, weight), z, people, Segments(torch.arange(0, 3 * n + 1, 3))


@pytest.mark.parametrize("total", [1, 7, 40])
def test_small_totals_have_the_exact_law(total):
    law, z, people, segments = every_count(total)
    table = torch.full((total + 1, total + 1 + total % 2), -torch.inf, dtype=torch.float64)
    table[range(total + 1), range(total + 1)] = 0.0
    found = SmallTotals(people, table, segments).log_z(z)[:, 0].numpy()
    np.testing.assert_allclose(found, np.log(law), atol=1e-10)


@pytest.mark.parametrize(("total", "error"), [(101, 0.03), (1000, 2e-3), (5000, 1e-3)])
def test_saddle_point_law_of_large_totals_is_off_by_less_than_its_bound(total, error):
    law, z, people, segments = every_count(total)
    counts = torch.arange(total + 1).double()
    found = log_total_density(z, people, counts, torch.zeros_like(counts), segments)[:, 0].numpy()
    seen = law > 1e-12
    assert np.abs(found - np.log(law, where=seen, out=np.zeros_like(law)))[seen].max() < error


def test_saddle_point_is_exact_where_rows_are_alike():
    counts = torch.tensor([0.0, 3.0, 50.0, 120.0], dtype=torch.float64)
    z, people = torch.full((8, 1), -0.3, dtype=torch.float64), torch.tensor([50.0, 70.0] * 4, dtype=torch.float64)
    found = log_total_density(z, people, counts, torch.zeros(4, dtype=torch.float64), Segments(torch.arange(0, 9, 2)))
    np.testing.assert_allclose(found[:, 0], binom.logpmf(counts, 120, norm.cdf(-0.3)), atol=1e-8)


def test_uncertain_totals_are_integrated_over():
    law, z, people, _ = every_count(400)
    stated, variance = 150.3, 80.0
    density = norm.pdf(stated, np.arange(401), np.sqrt(variance)) @ law
    found = log_total_density(
        z[:3],
        people[:3],
        torch.tensor([stated]).double(),
        torch.tensor([variance]).double(),
        Segments(torch.tensor([0, 3])),
    )
    assert float(found) == pytest.approx(np.log(density), abs=1e-4)


def test_laws_have_right_first_and_second_derivatives():
    z = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weight, segments = torch.tensor([3.0, 5.0, 6.0, 1.0], dtype=torch.float64), Segments(torch.tensor([0, 2, 4]))
    table = torch.zeros(2, 9, dtype=torch.float64)
    table[0, :4] = table[1, 8] = -torch.inf
    stated, variance = torch.tensor([2.0, 4.3]).double(), torch.tensor([0.0, 0.5]).double()
    small, large = SmallTotals(weight, table, segments), (weight, stated, variance, segments)
    for law in (small.log_z, lambda z: log_total_density(z, *large)):
        assert torch.autograd.gradcheck(law, (z,))
        assert torch.autograd.gradgradcheck(law, (z,))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (9.0, 9.5), (-40.0, -39.0)])
def test_normal_chance_between_two_limits_is_right_in_both_tails(low, high):
    found = float(log_between(torch.tensor(low).double(), torch.tensor(high).double()))
    near, far = (norm.logsf(low), norm.logsf(high)) if low > 0 else (norm.logcdf(high), norm.logcdf(low))
    wanted = near + np.log1p(-np.exp(far - near))
    assert found == pytest.approx(wanted, rel=1e-9)
