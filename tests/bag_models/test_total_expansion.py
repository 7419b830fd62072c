"""Slopes and second derivatives of what bags of totals state, against automatic differentiation."""

import numpy as np
import pytest
import torch
from tests.precincts import precincts

from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.totals import TotalBags
from bagwise.evidence.statements import count, fraction
from bagwise.evidence.totals import total_statements

STATEMENTS = {
    "numbers": lambda k, n: count(k, k),
    "shares": lambda k, n: fraction(k / n, 40.0),
    "nobody and everybody": lambda k, n: count(
        np.where(np.arange(len(k)) % 2, 0, n), np.where(np.arange(len(k)) % 2, 0, n)
    ),
}


@pytest.mark.parametrize("effect", [(0.0, 0.0), (0.4, 0.0), (0.8, 0.6)])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_written_out_derivatives_of_totals_equal_automatic_ones(statement, effect):
    bags, positive, people = precincts(8, totals=(4, 110))
    stated = total_statements(STATEMENTS[statement](positive.sum(1), people.sum(1)), bags)
    held = TotalBags(stated, torch.float64, torch.device("cpu"))
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(len(bags.X), 3, generator=random, dtype=torch.float64)
    shrink = 0.5 + 0.5 * torch.rand(len(bags.X), generator=random, dtype=torch.float64)
    times = torch.arange(1.0, len(bags) + 1.0, dtype=torch.float64)
    size = Effect(*(torch.tensor(value, dtype=torch.float64) for value in effect))
    at = torch.tensor([0.3, -0.5, 0.2], dtype=torch.float64)
    for _ in range(20):  # the most probable effects are remembered; once they stand still the nodes are the same
        held.logs(rows @ at, shrink, size)

    def value(v):
        return (times * held.logs(rows @ v, shrink, size)).sum()

    found = held.expansion(rows @ at, shrink, size)
    slope = rows.T @ (held.segments.spread(times) * found.slope)
    torch.testing.assert_close((times * found.logs).sum(), value(at), rtol=1e-10, atol=0)
    torch.testing.assert_close(slope, _slope(value, at), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(
        found.curvature(times, rows), torch.autograd.functional.hessian(value, at), rtol=1e-6, atol=1e-6
    )


def _slope(value, at):
    here = at.clone().requires_grad_()
    return torch.autograd.grad(value(here), here)[0]
