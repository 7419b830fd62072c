"""The Laplace evidence of pinned counts: its moments, its gradient, and that it finds kernels where messages fail."""

import gpytorch
import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import norm
from sklearn.datasets import make_moons
from tests.problems import features_of, random_bags, segments_of

from bagwise import BagGP, Bags
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import ragged_ranges
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.evidence.statements import Evidence, count, fraction, label, log_potentials
from bagwise.gp.features import Design
from bagwise.inference.kernel_learning.by_moments import MomentEvidence, _moments


def mixed_problem(seed=0, n_bags=9):
    """Fractions, ranges, labels and nothing, with a few known instances."""
    rng = np.random.default_rng(seed)
    bags = random_bags(rng, n_bags, sizes=(4, 7))
    known = np.full(bags.n_instances, np.nan)
    known[[0, 5]] = 1.0, 0.0
    statement = Evidence.concat(
        [fraction([0.4, 0.6, 0.25], 50.0), count([1, 2], [3, 2]), label([1, 0, 1]), label([np.nan])]
    )
    given = bags.with_known(known)
    chunk = ProbitCounts(read_counts(statement, given, given, CountReading("label", 1.0)).evidence).chunk(
        slice(0, n_bags), torch.float64, torch.device("cpu")
    )
    return bags, chunk


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
    monkeypatch.setattr("bagwise.inference.kernel_learning.learn.MomentEvidence", None)
    bags, fractions, truth = moons_in_twenty_bags(10)
    model = BagGP(evidence="fraction", n_inducing=20, random_state=0).fit(bags, fractions)
    assert model.learning_trace_.converged
    assert np.mean(model.predict_instances(bags) == truth) > 0.97
