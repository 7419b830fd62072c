"""Labels that are wrong with a known probability: against the sum over both truths, and against tables."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts, label_terms
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import label, log_potentials

CPU = torch.device("cpu")
SIZES = [1, 3, 5, 2]


@pytest.fixture
def latent():
    return torch.tensor(np.random.default_rng(0).normal(size=(sum(SIZES), 1)), requires_grad=True)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.05, 0.3, 0.499])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_noisy_label_is_right_or_wrong(latent, noise, value):
    labels = torch.full((len(SIZES), 1), value, dtype=torch.float64)
    found, _ = label_terms(latent, labels, segments_of(SIZES), noise)
    f, start = latent.detach().numpy()[:, 0], np.cumsum([0, *SIZES])
    for bag in range(len(SIZES)):
        negative = norm.cdf(-f[start[bag] : start[bag + 1]]).prod()
        right = negative if value == 0 else 1.0 - negative
        assert found[bag, 0].exp().item() == pytest.approx((1 - noise) * right + noise * (1 - right), rel=1e-12)


@pytest.mark.parametrize("noise", [1e-6, 0.05, 0.3])
def test_pull_of_a_noisy_label_is_the_gradient_of_its_log_probability(latent, noise):
    labels = torch.tensor([[1.0], [0.0], [1.0], [torch.nan]], dtype=torch.float64)
    log_z, pull = label_terms(latent, labels, segments_of(SIZES), noise)
    (gradient,) = torch.autograd.grad(log_z.sum(), latent)
    torch.testing.assert_close(pull, gradient, rtol=1e-9, atol=1e-12)
    assert log_z[3].item() == 0.0
    assert not pull[-2:].any()


def test_noise_bounds_what_a_label_can_say():
    f = torch.tensor([[-40.0], [40.0], [40.0]], dtype=torch.float64)
    labels = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    log_z, pull = label_terms(f, labels, segments_of([1, 2]), 0.1)
    np.testing.assert_allclose(log_z[:, 0], math.log(0.1), rtol=1e-12)
    np.testing.assert_allclose(pull, 0.0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_closed_form_of_a_noisy_label_equals_its_table(latent, value):
    sizes = np.array(SIZES)
    table = log_potentials(label(np.full(len(sizes), value)), sizes, 0.2)
    by_table = np.ones(len(sizes), dtype=bool)
    tabled = CountEvidence(np.full((len(sizes), 1), np.nan), sizes, (table,), (by_table,))
    closed = CountEvidence(np.full((len(sizes), 1), value), sizes, label_noise=0.2)
    found = [
        ProbitCounts(evidence).chunk(slice(0, 4), torch.float64, CPU).terms(latent.detach(), segments_of(SIZES))
        for evidence in (closed, tabled)
    ]
    for part, other in zip(*found, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-10, atol=1e-12)


def test_some_bags_and_columns_side_by_side_keep_their_noise():
    one = CountEvidence(np.array([[0.0], [1.0]]), np.array([2, 3]), label_noise=0.1)
    assert one.of_bags(np.array([1])).label_noise == 0.1
    assert CountEvidence.side_by_side([one, one]).label_noise == 0.1
    other = CountEvidence(np.array([[0.0], [1.0]]), np.array([2, 3]), label_noise=0.2)
    assert one.identity() != other.identity()
