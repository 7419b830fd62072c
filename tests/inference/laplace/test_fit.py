"""Bags by bags give what instances by instances give."""

import pytest
import torch
from tests.inference.laplace.pooled_problems import exact_features, losses
from tests.problems import segments_of

from bagwise.bag_models.soft_max import WitnessLoss, soft_witness
from bagwise.inference.laplace.fit import Witnessed, fit_weighted
from bagwise.inference.laplace.mode import find_mode, log_evidence
from bagwise.inference.laplace.pooled_rows import ExactRows, InducedRows
from bagwise.numerics.links import LINKS


@pytest.mark.parametrize("link", LINKS)
def test_bags_by_bags_equals_instances_by_instances(problem, link):
    """(6.4)–(6.6) against Newton over all N latent values with K and P written out."""
    bags, labels = problem
    features = exact_features(bags)
    phi, _ = (torch.from_numpy(part) for part in features.transform(bags))
    K, segments = phi @ phi.T, segments_of(bags.sizes)
    weights = soft_witness(phi[:, 0], segments, 3.0)
    P = torch.zeros(len(bags), len(phi), dtype=torch.float64)
    P[segments.index, torch.arange(len(phi))] = weights
    # N × N: minimise Σ ℓ(P F) + ½ Fᵀ K⁻¹ F by Newton's method
    loss, F = losses(labels, link), torch.zeros(len(phi), dtype=torch.float64)
    for _ in range(60):
        W = P.T @ torch.diag(loss.bend(P @ F)) @ P
        right = W @ F - P.T @ loss.slope(P @ F)
        F = torch.linalg.solve(torch.eye(len(F), dtype=F.dtype) + K @ W, K @ right)
    W = P.T @ torch.diag(loss.bend(P @ F)) @ P
    determinant = torch.linalg.slogdet(torch.eye(len(F), dtype=F.dtype) + K @ W)[1]
    nll = loss.value(P @ F) + 0.5 * F @ torch.linalg.solve(K, F) + 0.5 * determinant
    # B × B
    for rows in (
        ExactRows(features.kernel, features.standardised(bags.X), segments, 0.0, 1e-14),
        InducedRows(features.kernel, features.standardised(bags.X), features.inducing, segments, 0.0, 1e-14),
    ):
        with torch.no_grad():
            T = rows.rows(weights)
            mode = find_mode(WitnessLoss(loss), T, [torch.zeros_like(T[0])])
            alpha = -loss.slope(T @ mode.v)
            assert float(log_evidence(WitnessLoss(loss), T, mode.v)) == pytest.approx(-float(nll), abs=1e-8)
            torch.testing.assert_close(rows.scores(weights, alpha), F, rtol=0, atol=1e-8)
    (fit,) = fit_weighted(features, bags, [loss], [Witnessed(weights, mode.trace)])
    torch.testing.assert_close(phi @ fit.mean, F, rtol=0, atol=1e-8)
    covariance = phi @ torch.cholesky_inverse(fit.factor) @ phi.T
    middle = torch.linalg.inv(torch.linalg.inv(torch.diag(loss.bend(P @ F))) + P @ K @ P.T)
    torch.testing.assert_close(covariance, K - K @ P.T @ middle @ P @ K, rtol=0, atol=1e-8)  # (6.6)
