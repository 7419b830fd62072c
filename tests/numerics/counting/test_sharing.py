"""A total shared out among its parts."""

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from bagwise.numerics.counting.sharing import redraw_pairs, share_out, tilted_chances, whole_numbers
from bagwise.numerics.segments import Segments


@pytest.mark.parametrize(("weight", "total"), [((6, 9), 5), ((40, 3), 12), ((900, 4), 300)])
def test_draws_of_two_parts_of_a_total_follow_the_conditional_law(weight, total):
    z = torch.tensor([-0.8, 0.9]).double()[:, None].expand(2, 4000)
    people, segments = torch.tensor(weight).double()[:, None], Segments(torch.tensor([0, 2]))
    wanted, generator = torch.full((1, 4000), float(total), dtype=torch.float64), torch.Generator().manual_seed(1)
    chance = tilted_chances(z, people, wanted, segments)
    drawn = whole_numbers(share_out(chance, people, wanted, segments, generator), people, wanted, segments)
    drawn = redraw_pairs(drawn, people, torch.logit(chance), segments, generator)
    assert (drawn.sum(0) == total).all()
    y = np.arange(weight[1] + 1)
    law = binom.pmf(y, weight[1], norm.cdf(0.9)) * binom.pmf(total - y, weight[0], norm.cdf(-0.8))
    found = np.bincount(drawn[1].numpy().astype(int), minlength=len(y)) / 4000
    assert np.abs(np.cumsum(found) - np.cumsum(law / law.sum())).max() < 0.04
