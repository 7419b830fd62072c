"""The collapsed bound (1.6), its gradient (1.7), and the iterations that climb it."""

import numpy as np
import pytest
import torch
from tests.problems import enumerate_signs, features_of, one_chunk, random_bags, random_labels

import bagwise.gp.features
from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.chunks import in_memory
from bagwise.inference.loop import iterate
from bagwise.inference.mean_field import MeanField


def mean_field(features, bags, y):
    evidence = CountEvidence(y.numpy(), bags.sizes)
    return MeanField(in_memory(features, bags, ProbitCounts(evidence)), torch.tensor(evidence.observed()))


RULES = {0.0: lambda k: float(k == 0), 1.0: lambda k: float(k >= 1)}


def problem(seed, **changes):
    rng = np.random.default_rng(seed)
    bags = random_bags(rng)
    y = torch.tensor(random_labels(rng, bags))[:, None]
    return bags, y, features_of(bags, **changes)


def bound_term_by_term(phi, kappa, sizes, labels, mu):
    """E_q[log p(Y, m, f, v)] + entropies, one factor at a time, with the optimal Σ and q(m); nothing collapsed.

    For a single bag, q(m) = ψ(#) N(m; f, I) / Z, so −E_q[log q(m)] = log Z − E_q[log ψ] − E_q[log N(m; f, I)] and ψ = 1
    wherever q(m) > 0. E|m − f|² comes from enumeration of the signs: within a sign, (m − f)² has mean 1 ∓ f·hazard.
    """
    r = phi.shape[1]
    sigma = np.linalg.inv(np.eye(r) + phi.T @ phi)
    f = phi @ mu
    total, start = 0.0, 0
    for size, label in zip(sizes, labels, strict=True):
        rows = slice(start, start + size)
        start += size
        z, mean = enumerate_signs(f[rows], RULES[label])
        second = _mean_square_distance(f[rows], RULES[label], z)
        trace = np.trace(phi[rows] @ sigma @ phi[rows].T)
        # E log N(m; f, I) with f ~ N(φᵀv, κ) and v ~ N(μ, Σ): the mean of (m − f)² adds κ and the trace
        likelihood = -0.5 * size * np.log(2 * np.pi) - 0.5 * (second + kappa[rows].sum() + trace)
        entropy = np.log(z) + 0.5 * size * np.log(2 * np.pi) + 0.5 * second
        total += likelihood + entropy
        assert np.isfinite(mean).all()
    kl = 0.5 * (np.trace(sigma) + mu @ mu - r - np.linalg.slogdet(sigma)[1])
    return total - kl


def _mean_square_distance(f, allowed, z):
    import itertools

    from scipy.stats import norm

    total = 0.0
    for signs in itertools.product([0, 1], repeat=len(f)):
        s = np.array(signs)
        weight = allowed(s.sum()) * np.prod(np.where(s == 1, norm.cdf(f), norm.cdf(-f)))
        within = np.where(s == 1, 1 - f * norm.pdf(f) / norm.cdf(f), 1 + f * norm.pdf(f) / norm.cdf(-f))
        total += weight * within.sum()
    return total / z


@pytest.mark.parametrize("seed", range(4))
def test_collapsed_bound_equals_the_bound_assembled_term_by_term(seed):
    bags, y, features = problem(seed)
    phi, kappa = features.transform(bags)
    state = mean_field(features, bags, y)
    for _ in range(3):
        state.fixed_point_step()
    mu = state.posterior().mean[:, 0].numpy()
    expected = bound_term_by_term(phi, kappa, bags.sizes, y[:, 0].numpy(), mu)
    assert state.bound().item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("problems", [100, pytest.param(300, marks=pytest.mark.statistical)])
def test_published_updates_never_lower_the_bound_on_hundreds_of_problems(problems):
    falls = []
    for seed in range(problems):
        rng = np.random.default_rng(seed)
        bags = random_bags(rng, n_bags=int(rng.integers(2, 20)), sizes=(1, int(rng.integers(1, 9))))
        y = torch.tensor(random_labels(rng, bags))[:, None]
        lengthscale, bias = float(np.exp(rng.normal())), float(rng.choice([0.0, 5.0]))
        features = features_of(bags, lengthscale=lengthscale, bias=bias, n_inducing=int(rng.integers(1, 12)))
        state = mean_field(features, bags, y)
        values = [state.fixed_point_step().objective for _ in range(25)] + [state.bound().item()]
        falls.append(np.diff(values).min())
    assert min(falls) >= -1e-11


@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(seed):
    bags, y, features = problem(seed)
    state = mean_field(features, bags, y)
    w = torch.tensor(np.random.default_rng(seed).normal(size=state._climb.x.shape))
    _, gradient = state._evaluate(w)
    for i in range(len(w)):
        step = torch.zeros_like(w)
        step[i] = 1e-5
        slope = (state._evaluate(w + step)[0] - state._evaluate(w - step)[0]).item() / 2e-5
        assert gradient[i].item() == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_lbfgs_and_the_published_fixed_point_agree(seed):
    bags, y, features = problem(seed)
    slow, quick = (mean_field(features, bags, y) for _ in range(2))
    iterate(slow.fixed_point_step, name="bound", max_iter=20_000, tol=1e-9)
    trace = iterate(quick.lbfgs_step, name="bound", max_iter=200, tol=1e-9)
    assert trace.converged
    torch.testing.assert_close(quick.posterior().mean, slow.posterior().mean, rtol=0, atol=1e-7)
    assert quick.bound().item() == pytest.approx(slow.bound().item(), abs=1e-10)


def test_label_columns_fitted_together_equal_separate_fits():
    rng = np.random.default_rng(3)
    bags = random_bags(rng, n_bags=20)
    features = features_of(bags, bias=5.0)
    y = torch.tensor(rng.integers(0, 2, (20, 3)).astype(float))
    y[4, 1] = y[7, 2] = y[9, 2] = float("nan")
    together = mean_field(features, bags, y)
    iterate(together.lbfgs_step, name="bound", max_iter=300, tol=1e-10)
    for k in range(3):
        alone = mean_field(features, bags, y[:, [k]])
        iterate(alone.lbfgs_step, name="bound", max_iter=300, tol=1e-10)
        torch.testing.assert_close(together.posterior().mean[:, [k]], alone.posterior().mean, rtol=0, atol=1e-8)
        assert together.bound()[k].item() == pytest.approx(alone.bound().item(), abs=1e-9)


def test_columns_with_the_same_missing_bags_share_one_factor():
    rng = np.random.default_rng(4)
    bags = random_bags(rng)
    y = torch.tensor(rng.integers(0, 2, (12, 4)).astype(float))
    y[3, 1] = y[3, 3] = float("nan")
    posterior = mean_field(features_of(bags), bags, y).posterior()
    assert len(posterior.factors) == 2
    assert posterior.factor_of[0] == posterior.factor_of[2] != posterior.factor_of[1] == posterior.factor_of[3]


def test_a_bag_without_a_label_changes_nothing():
    bags, y, features = problem(7)
    y[[2, 5]] = float("nan")
    seen = ~torch.isnan(y[:, 0])
    with_them = mean_field(features, bags, y)
    without = mean_field(features, bags[seen.numpy()], y[seen])
    for state in (with_them, without):
        iterate(state.lbfgs_step, name="bound", max_iter=200, tol=1e-10)
    torch.testing.assert_close(with_them.posterior().mean, without.posterior().mean, rtol=0, atol=1e-9)
    torch.testing.assert_close(with_them.posterior().factors, without.posterior().factors, rtol=0, atol=1e-10)
    assert with_them.bound().item() == pytest.approx(without.bound().item(), abs=1e-10)


def test_nothing_observed_leaves_the_prior():
    bags, y, features = problem(8)
    state = mean_field(features, bags, y * float("nan"))
    state.lbfgs_step()
    posterior = state.posterior()
    assert (posterior.mean == 0).all()
    torch.testing.assert_close(posterior.factors[0], torch.eye(8, dtype=torch.float64))
    assert state.bound().item() == 0


def test_how_bags_are_cut_into_chunks_does_not_matter(monkeypatch):
    bags, y, features = problem(9)
    whole = mean_field(features, bags, y)
    monkeypatch.setattr(bagwise.gp.features, "CHUNK_ROWS", 4)
    cut = mean_field(features, bags, y)
    assert len(cut._chunks.chunks) > 5
    for state in (whole, cut):
        iterate(state.fixed_point_step, name="bound", max_iter=10, tol=0.0)
    torch.testing.assert_close(whole.posterior().mean, cut.posterior().mean, rtol=0, atol=1e-12)


def test_single_precision_chunks_are_added_in_double_precision():
    phi = torch.ones(3, 1, dtype=torch.float32)
    store = one_chunk(phi, torch.zeros(3), [3], torch.ones(1, 1))
    sums = store.sweep(lambda chunk, remembered, shared: ({"n": chunk.design.phi.sum()}, remembered), None)
    assert sums["n"].dtype == torch.float64


@pytest.mark.parametrize("seed", range(4))
def test_single_precision_stops_where_rounding_begins(seed):
    """Near there steps are noisy: it may take some more of them than double precision."""
    bags, y, features = problem(seed)
    single = features_of(bags, dtype=torch.float32)
    states = [mean_field(some, bags, y) for some in (features, single)]
    assert states[1].reachable == pytest.approx(10 * np.finfo(np.float32).eps * np.sqrt(bags.n_instances))
    assert states[0].reachable < 1e-12
    double, rough = (iterate(s.lbfgs_step, name="", max_iter=200, tol=max(1e-6, s.reachable)) for s in states)
    assert double.converged
    assert rough.converged
    assert len(rough) <= 3 * len(double)
