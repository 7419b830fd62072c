"""The effect of a group is integrated out exactly."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.precincts import KINDS, precincts

from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.totals import TotalBags
from bagwise.evidence.totals import total_statements


@pytest.mark.parametrize("kind", KINDS)
def test_effect_of_the_group_is_integrated_out_exactly(kind):
    bags, positive, people = precincts(5, totals=(3, 90))
    y = KINDS[kind](positive.sum(1), people.sum(1))
    held = TotalBags(total_statements(y, bags), torch.float64, torch.device("cpu"))
    z, ones, sd = torch.tensor(np.tile([-0.6, 0.5], 5)), torch.ones(10, dtype=torch.float64), 0.7
    effect = Effect(torch.tensor(sd, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64))
    grid = torch.linspace(-6.0, 6.0, 4001, dtype=torch.float64) * sd
    logs = held.conditional(z[:, None] + grid) + torch.as_tensor(norm.logpdf(grid.numpy(), 0.0, sd))
    wanted = torch.logsumexp(logs, 1) + torch.log(grid[1] - grid[0])
    found = held.logs(z, ones, effect)
    np.testing.assert_allclose(found, wanted, atol=2e-3)
