"""Derivatives of laws of totals in the scores of their rows."""

import pytest
import torch

from bagwise.numerics.counting.expansions import SaddleExpansion, TableExpansion
from bagwise.numerics.counting.totals import SmallTotals, log_total_density
from bagwise.numerics.segments import Segments

SEGMENTS = Segments(torch.tensor([0, 2, 5]))
PEOPLE = torch.tensor([30.0, 9.0, 4.0, 50.0, 7.0], dtype=torch.float64)
Z = torch.tensor([-0.7, 0.4, 1.3, -0.2, 0.1], dtype=torch.float64)
ROWS = torch.eye(5, dtype=torch.float64)


def agree(expansion, logs):
    wanted = torch.autograd.functional.hessian(lambda z: logs(z[:, None]).sum(), Z)
    (slope,) = torch.autograd.grad(logs(at := Z[:, None].clone().requires_grad_()).sum(), at)
    torch.testing.assert_close(expansion.logs, logs(Z[:, None]))
    torch.testing.assert_close(expansion.slope, slope, rtol=1e-7, atol=1e-8)
    found = expansion.curvature(torch.ones(2, 1, dtype=torch.float64), ROWS)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("stated", "variance"), [((12.0, 30.0), (0.0, 0.0)), ((0.0, 61.0), (0.0, 0.0)), ((5.5, 40.0), (3.0, 0.4))]
)
def test_slopes_of_a_saddle_point_are_those_of_automatic_differentiation(stated, variance):
    given = PEOPLE, *(torch.tensor(values, dtype=torch.float64) for values in (stated, variance)), SEGMENTS
    agree(SaddleExpansion(Z[:, None], *given), lambda z: log_total_density(z, *given))


@pytest.mark.parametrize("exact", [True, False])
def test_slopes_of_a_table_are_mean_and_covariance_of_the_rows(exact):
    count = torch.arange(63, dtype=torch.float64)
    middle = torch.tensor([12.0, 30.0], dtype=torch.float64)[:, None]
    table = torch.where(count == middle, 0.0, -torch.inf).double() if exact else -0.05 * (count - middle).square()
    table = table.masked_fill(count > torch.tensor([39.0, 61.0])[:, None], -torch.inf)
    small = SmallTotals(PEOPLE, table, SEGMENTS)
    agree(TableExpansion(small, Z[:, None]), small.log_z)
