"""Log evidence around a mode: close to quadrature, and its gradient with the mode found again."""

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import norm
from tests.inference.kernel_learning.moment_problems import mixed_problem
from tests.problems import features_of, segments_of

from bagwise import Bags
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import ragged_ranges
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.evidence.statements import fraction, log_potentials
from bagwise.gp.features import Design
from bagwise.inference.kernel_learning.by_moments import MomentEvidence


@pytest.mark.parametrize("seed", range(3))
def test_gradient_in_the_features_equals_finite_differences_with_the_mode_found_again(seed):
    bags, chunk = mixed_problem(seed)
    features = features_of(bags, bias=2.0, n_inducing=4)
    phi, kappa = (torch.tensor(part) for part in features.transform(bags))
    segments = segments_of(bags.sizes)
    phi.requires_grad_()
    kappa.requires_grad_()
    MomentEvidence(chunk, segments)(Design(phi, kappa, segments)).backward()
    rng = np.random.default_rng(seed)
    for part, i in (
        (0, int(rng.integers(len(phi)))),
        (0, int(rng.integers(len(phi)))),
        (1, int(rng.integers(len(phi)))),
    ):
        values = []
        for step in (1e-5, -1e-5):
            moved = [phi.detach().clone(), kappa.detach().clone()]
            moved[part][(i, 1) if part == 0 else i] += step
            values.append(MomentEvidence(chunk, segments)(Design(*moved, segments)).item())
        slope = (phi.grad[i, 1] if part == 0 else kappa.grad[i]).item()
        assert slope == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_evidence_is_close_to_quadrature_on_a_large_bag_with_a_two_dimensional_latent():
    """Two bags of 40 with fractions of confidence 200: (4.7) against a grid over v with the exact count law."""
    rng = np.random.default_rng(3)
    bags = Bags(rng.normal(size=(80, 2)), np.repeat([0, 1], 40))
    features = features_of(bags, n_inducing=2)
    statement = fraction([0.3, 0.65], 200.0)
    chunk = ProbitCounts(read_counts(statement, bags, bags, CountReading("fraction", 200.0)).evidence).chunk(
        slice(0, 2), torch.float64, torch.device("cpu")
    )
    phi, kappa = features.transform(bags)
    segments = segments_of(bags.sizes)
    design = Design(torch.tensor(phi), torch.tensor(kappa), segments)
    found = MomentEvidence(chunk, segments)(design).item()
    exact = _grid_evidence(phi / np.sqrt(1 + kappa)[:, None], bags.sizes, log_potentials(statement, bags.sizes))
    # (4.5) treats the potential as a normal density of k; its height is the sum of the potential over k
    height = sum(np.log(np.exp(table).sum()) for table in np.split(log_potentials(statement, bags.sizes), [41]))
    assert found + height == pytest.approx(exact, abs=0.1)


def _grid_evidence(rows, sizes, table):
    t = np.linspace(-6, 6, 241)
    v = np.stack(np.meshgrid(t, t, indexing="ij"), -1).reshape(-1, 2)
    total = norm.logpdf(v).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for b, size in enumerate(sizes):
        z = v @ rows[starts[b] : starts[b + 1]].T
        law = np.zeros((len(v), size + 1))
        law[:, 0] = 1.0
        for p in np.exp(log_ndtr(z)).T:
            law[:, 1:] = law[:, 1:] * (1 - p[:, None]) + law[:, :-1] * p[:, None]
            law[:, 0] *= 1 - p
        psi = np.exp(table[ragged_ranges(np.array([starts[b] + b]), np.array([size + 1]))])
        total = total + np.log(law @ psi)
    return np.log(np.exp(total).sum() * (t[1] - t[0]) ** 2)
