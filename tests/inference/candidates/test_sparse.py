"""The sparse solver: its evidence is that of a low-rank law, its cotangents are derivatives."""

import numpy as np
import pytest
import torch
from tests.equivalence.candidate_problems import dense_nll, dense_parts, problem, rbf, sparse_chunks

from bagwise.inference.candidates.sparse import evidence_cotangents, fit_targets


@pytest.mark.parametrize("approximation", ["vfe", "fitc"])
def test_sparse_evidence_is_that_of_its_low_rank_law(approximation):
    bags, table = problem(20)
    features, chunks, model = sparse_chunks(bags, table, rbf(), n_inducing=7, approximation=approximation)
    phi, kappa = (torch.from_numpy(np.asarray(part)) for part in features.transform(bags))
    K, value, noise = dense_parts(bags, table, rbf())
    low = phi @ phi.T + (torch.diag(kappa) if approximation == "fitc" else 0.0)
    expected = -dense_nll(low, value, noise)
    if approximation == "vfe":
        expected = expected - 0.5 * (kappa[:, None] / noise).sum()
        assert expected < -dense_nll(K, value, noise)  # a bound on (7.7)
    assert fit_targets(chunks, model).log_evidence == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("approximation", ["vfe", "fitc"])
def test_cotangents_are_the_derivatives_of_the_evidence(approximation):
    bags, table = problem(8)
    _, chunks, model = sparse_chunks(bags, table, rbf(), n_inducing=5, approximation=approximation)
    posterior = fit_targets(chunks, model).posterior
    (chunk,), (alpha,) = chunks.chunks, chunks.remembered
    by_phi, by_kappa = evidence_cotangents(chunk, alpha, posterior, model)
    phi, kappa = chunk.design.phi, chunk.design.kappa
    for array, gradient, at in ((phi, by_phi, (2, 1)), (phi, by_phi, (0, 3)), (kappa, by_kappa, (1,))):
        values = []
        for step in (1e-5, -1e-5):
            array[at] += step
            values.append(-fit_targets(chunks, model).log_evidence)
            array[at] -= step
        assert float(gradient[at]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-6)
