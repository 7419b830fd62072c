"""The evidence around a mode that moves with the features."""

import numpy as np
import pytest
import torch

from bagwise.bag_models.soft_max import BagLosses, WitnessLoss
from bagwise.inference.laplace.mode import find_mode, log_evidence
from bagwise.numerics.links import LINKS


@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
def test_gradient_in_the_features_is_that_of_finding_the_mode_again(link):
    random = np.random.default_rng(0)
    loss = WitnessLoss(BagLosses(torch.tensor([1.0, 0.0, 1.0, 1.0, np.nan, 0.0], dtype=torch.float64), link))
    phi = torch.tensor(2.0 * random.normal(size=(6, 3)), requires_grad=True)

    def evidence(rows):
        mode = find_mode(loss, rows.detach(), [torch.zeros(3, dtype=torch.float64)]).v
        return log_evidence(loss, rows, mode)

    (gradient,) = torch.autograd.grad(evidence(phi), phi)
    for row, column in ((0, 1), (2, 2), (5, 0)):
        step = torch.zeros_like(phi)
        step[row, column] = 1e-5
        slope = (evidence(phi.detach() + step) - evidence(phi.detach() - step)) / 2e-5
        assert float(gradient[row, column]) == pytest.approx(float(slope), abs=1e-7)
    assert float(gradient[4].abs().max()) == 0.0
