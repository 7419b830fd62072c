"""The Laplace evidence of pinned counts: its moments, its gradient, and that it finds kernels where messages fail."""

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from tests.inference.kernel_learning.moment_problems import mixed_problem
from tests.problems import features_of, segments_of

from bagwise import BagGP, Bags
from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.gp.features import Design
from bagwise.inference.kernel_learning.by_moments import MomentEvidence, _moments


def evidence_at(bags, chunk, lengthscale, variance):
    """The moment evidence as a plain function of two kernel parameters."""
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    features = features_of(bags, kernel=kernel, lengthscale=None, bias=2.0, n_inducing=6)
    phi, kappa = (torch.tensor(part) for part in features.transform(bags))
    return MomentEvidence(chunk, segments_of(bags.sizes))(Design(phi, kappa, segments_of(bags.sizes))).item()


def test_moments_are_those_of_the_normalised_potential():
    _, chunk = mixed_problem()
    part = chunk.tabled[0]
    mean, variance = _moments(part)
    start = 0
    for b, size in enumerate(part.potentials.sizes.tolist()):
        log_psi = part.potentials.log_psi[start : start + size + 1].numpy()
        start += size + 1
        weight = np.exp(log_psi - log_psi.max()) / np.exp(log_psi - log_psi.max()).sum()
        k = np.arange(size + 1)
        assert mean[b].item() == pytest.approx(weight @ k, abs=1e-12)
        assert variance[b].item() == pytest.approx(weight @ (k - weight @ k) ** 2, abs=1e-12)


def test_evidence_prefers_the_kernel_that_made_the_data():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, size=(1200, 1))
    truth = np.sin(2.5 * X[:, 0]) > 0
    bags = Bags(X, np.repeat(np.arange(60), 20))
    chunk = ProbitCounts(
        read_counts(truth.reshape(60, 20).mean(axis=1), bags, bags, CountReading("fraction", 1000.0)).evidence
    ).chunk(slice(0, 60), torch.float64, torch.device("cpu"))
    short, right, long = (evidence_at(bags, chunk, length, 8.0) for length in (0.02, 0.4, 5.0))
    assert right > short + 5
    assert right > long + 5


def moons_in_twenty_bags(size):
    X, y = make_moons(20 * size, noise=0.1, random_state=0)
    bags = Bags(X, np.random.default_rng(0).permutation(np.arange(20 * size) // size))
    truth = y[bags.rows]
    return bags, np.add.reduceat(truth.astype(float), bags.offsets[:-1]) / bags.sizes, truth


def test_moments_judge_where_messages_do_not_settle(monkeypatch):
    """The start kernel (too smooth by far) would stay otherwise; learning finds the moons."""
    monkeypatch.setattr("bagwise.inference.kernel_learning.by_messages.SWEEPS", 2)
    bags, fractions, truth = moons_in_twenty_bags(50)
    model = BagGP(evidence="fraction", n_inducing=50, random_state=0).fit(bags, fractions)
    assert model.inference_ == "vi"
    assert model.learning_trace_.converged
    assert np.mean(model.predict_instances(bags) == truth) > 0.97


def test_messages_judge_where_they_settle(monkeypatch):
    """Here within 25 of 600 sweeps, whatever the inducing inputs; with bags of 50 that is a matter of luck."""
    monkeypatch.setattr("bagwise.inference.kernel_learning.judges.MomentEvidence", None)
    bags, fractions, truth = moons_in_twenty_bags(10)
    model = BagGP(evidence="fraction", n_inducing=20, random_state=0).fit(bags, fractions)
    assert model.learning_trace_.converged
    assert np.mean(model.predict_instances(bags) == truth) > 0.97
