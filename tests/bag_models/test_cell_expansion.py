"""Derivatives of the law of the common equivalent."""

import torch

from bagwise.bag_models.cell_effects import Cells, Effect
from bagwise.bag_models.cell_expansion import LawExpansion
from bagwise.numerics.segments import Segments


def test_slopes_of_the_law_of_the_common_equivalent_are_those_of_automatic_differentiation():
    people = torch.tensor([30.0, 9.0, 4.0, 50.0, 7.0], dtype=torch.float64)
    cells = Cells(people, torch.arange(5), Segments(torch.tensor([0, 2, 5])))
    z = torch.tensor([-0.7, 0.4, 1.3, -0.2, 0.1], dtype=torch.float64)
    u = torch.tensor([[0.3, -1.0], [0.8, 0.1]], dtype=torch.float64)
    weight = torch.tensor([[0.5, 1.0], [2.0, 0.7]], dtype=torch.float64)
    lever = torch.tensor([1.0, 0.9, 0.7, 1.0, 0.8], dtype=torch.float64)
    effect = Effect(torch.tensor(0.6, dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64))

    def law(z):
        return (weight * cells.log_law(u, z[:, None], lever[:, None], effect)).sum()

    found = LawExpansion(cells, u, z[:, None], lever[:, None], effect)
    here = z.clone().requires_grad_()
    (slope,) = torch.autograd.grad(law(here), here)
    torch.testing.assert_close((weight * found.logs).sum(), law(z))
    torch.testing.assert_close((cells.segments.spread(weight) * found.slope).sum(1), slope)
    rows = torch.eye(5, dtype=torch.float64)
    torch.testing.assert_close(found.curvature(weight, rows), torch.autograd.functional.hessian(law, z))
