"""Log evidence of totals by importance sampling."""

import numpy as np
import pytest
import torch
from tests.precincts import precincts

from bagwise import BagGP
from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.totals import TotalBags
from bagwise.evidence.statements import count
from bagwise.evidence.totals import total_statements
from bagwise.gp.effects import NO_EFFECT
from bagwise.inference.laplace.totals import whole_design, widened


@pytest.mark.statistical
def test_log_evidence_of_totals_is_that_of_importance_sampling():
    bags, positive, _ = precincts(25, sd=0.5)
    y = positive.sum(1)
    for sd in (0.1, 0.5, 1.5):
        model = BagGP(evidence="count", learn=False, group_effect=sd, random_state=0).fit(bags, y)
        features = model.features_.__class__(**{**vars(model.features_), "effect": NO_EFFECT})
        evidence = TotalBags(total_statements(count(y, y), bags), torch.float64, torch.device("cpu"))
        design = whole_design(features, bags)
        normals = torch.randn(design.phi.shape[1], 400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        v = model.posterior_.draws(normals)[0]
        shrink = torch.rsqrt(1.0 + design.kappa)
        effect = Effect(torch.tensor(sd, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64))
        logs = torch.stack([evidence.logs(shrink * (design.phi @ w), shrink, effect).sum() for w in v.T])
        logdet = torch.log(torch.diagonal(model.posterior_.factors[0])).sum()
        weights = logs - 0.5 * v.square().sum(0) + 0.5 * normals.square().sum(0) - logdet
        found = float(torch.logsumexp(weights, 0)) - np.log(400)
        assert model.log_evidence_ == pytest.approx(found, abs=0.1)


def test_possible_effects_widen_the_posterior_by_how_far_their_modes_lie_apart():
    random = torch.Generator().manual_seed(0)
    modes = torch.randn(6, 4, generator=random, dtype=torch.float64)
    root = torch.randn(4, 4, generator=random, dtype=torch.float64)
    lower, weights = torch.linalg.cholesky(root @ root.T + torch.eye(4)), [0.3, 0.1, 0.2, 0.2, 0.1, 0.1]
    found = torch.cholesky_inverse(widened(lower, modes, weights))
    between = np.cov(modes.T.numpy(), aweights=weights, ddof=0)
    np.testing.assert_allclose(found, torch.cholesky_inverse(lower).numpy() + between, rtol=1e-9)
