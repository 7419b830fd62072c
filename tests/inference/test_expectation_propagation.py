"""Expectation propagation against quadrature, against itself in other cuts, and the gradient of its evidence."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import count, fraction, log_potentials
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.inference.expectation_propagation import (
    Belief,
    ExpectationPropagation,
    Sites,
    cavity,
    move_step,
    propose_step,
    pull_back,
)
from bagwise.inference.loop import iterate
from bagwise.inference.mean_field import MeanField
from bagwise.inference.stride import Stride

CPU = torch.device("cpu")
NAN = np.nan


# ---------------------------------------------------------------- problems and references


def labels_of(y, sizes):
    return CountEvidence(np.asarray(y, dtype=float).reshape(len(sizes), -1), np.asarray(sizes))


def tables_of(statement, sizes):
    sizes = np.asarray(sizes)
    table = log_potentials(statement, sizes)
    return CountEvidence(np.full((len(sizes), 1), NAN), sizes, (table,), (np.ones(len(sizes), dtype=bool),))


def chunked(phi, kappa, sizes, evidence, cuts=None):
    """The bags in one chunk, or cut at the given bag numbers."""
    cuts = [0, len(sizes)] if cuts is None else cuts
    start = np.concatenate([[0], np.cumsum(sizes)])
    chunks = []
    for first, last in itertools.pairwise(cuts):
        rows = slice(start[first], start[last])
        design = Design(torch.tensor(phi[rows]), torch.tensor(kappa[rows]), segments_of(sizes[first:last]))
        chunks.append(Chunk(design, ProbitCounts(evidence).chunk(slice(first, last), torch.float64, CPU)))
    return InMemory(chunks)


def by_ep(phi, kappa, sizes, evidence, cuts=None, tol=1e-9):
    chunks = chunked(phi, kappa, sizes, evidence, cuts)
    state = ExpectationPropagation(chunks, phi.shape[1], evidence.labels.shape[1], CPU)
    trace = iterate(state.step, name="log evidence", max_iter=2000, tol=tol)
    assert trace.converged
    state.finish()
    return state, chunks


def by_vi(phi, kappa, sizes, evidence):
    """The mean field (1.8): f integrated out first."""
    scaled = phi / np.sqrt(1 + kappa)[:, None]
    chunks = chunked(scaled, np.zeros(len(phi)), sizes, evidence)
    state = MeanField(chunks, torch.tensor(evidence.observed()))
    assert iterate(state.lbfgs_step, name="bound", max_iter=1000, tol=1e-7).converged
    return state


def moments(posterior, column=0):
    factor = posterior.factors[posterior.factor_of[column]]
    return posterior.mean[:, column].numpy(), torch.cholesky_inverse(factor).diagonal().numpy()


def messages(chunks):
    return tuple(torch.cat([getattr(site, name) for site in chunks.remembered]) for name in ("tau", "nu"))


def by_grid(phi, kappa, sizes, tables, points=141, reach=7.0):
    """log evidence, mean and variance of v (two or three weights) by summing over a grid; ψ_b(k) as plain tables.

    The chance of k positives among independent instances is built up one instance at a time.
    """
    axis, weights = np.linspace(-reach, reach, points), phi.shape[1]
    v = np.stack(np.meshgrid(*[axis] * weights), axis=-1).reshape(-1, weights)
    p = norm.cdf(v @ phi.T / np.sqrt(1 + kappa))
    likelihood, start = np.ones(len(v)), 0
    for size, psi in zip(sizes, tables, strict=True):
        law = np.zeros((len(v), size + 1))
        law[:, 0] = 1.0
        for i in range(start, start + size):
            law[:, 1:] = law[:, 1:] * (1 - p[:, [i]]) + law[:, :-1] * p[:, [i]]
            law[:, 0] *= 1 - p[:, i]
        likelihood *= law @ psi
        start += size
    weight = likelihood * np.prod(norm.pdf(v), axis=1) * (axis[1] - axis[0]) ** weights
    total = weight.sum()
    mean = weight @ v / total
    return np.log(total), mean, weight @ v**2 / total - mean**2


def table_of(y, size):
    return (np.arange(size + 1) >= 1 if y == 1 else np.arange(size + 1) == 0).astype(float)


def tiny(seed):
    """A problem with two weights: a few bags, at least one label of either kind, kernel variance 1, 4 or 16."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, int(rng.integers(2, 5)))
    phi = rng.choice([1.0, 2.0, 4.0]) * rng.normal(size=(sizes.sum(), 2)) / np.sqrt(2)
    kappa = rng.uniform(0, 1, sizes.sum()) * (rng.random() < 0.7)
    y = (rng.random(len(sizes)) < 0.5).astype(float)
    y[:2] = 1.0, 0.0
    return phi, kappa, sizes, y


# ---------------------------------------------------------------- against quadrature


def test_closer_to_the_truth_than_the_mean_field_on_most_of_a_hundred_problems():
    wins = {"mean": 0, "variance": 0, "log evidence": 0}
    for seed in range(100):
        phi, kappa, sizes, y = tiny(seed)
        evidence = labels_of(y, sizes)
        log_z, *truth = by_grid(phi, kappa, sizes, [table_of(*pair) for pair in zip(y, sizes, strict=True)])
        ep, vi = by_ep(phi, kappa, sizes, evidence, tol=1e-6)[0], by_vi(phi, kappa, sizes, evidence)
        errors = [
            [np.linalg.norm(found - true) for found, true in zip(moments(state.posterior()), truth, strict=True)]
            for state in (ep, vi)
        ]
        wins["mean"] += errors[0][0] < errors[1][0]
        wins["variance"] += errors[0][1] < errors[1][1]
        wins["log evidence"] += abs(ep.log_evidence.item() - log_z) < abs(vi.bound().item() - log_z)
        assert vi.bound().item() <= log_z + 1e-6, f"problem {seed}: the bound is above the evidence"
    assert min(wins.values()) > 80, f"EP closer than VI on so many of 100 problems: {wins}"


def textbook_ep(K, y, sweeps=200):
    """Sequential EP for Gaussian process classification in function space (Rasmussen & Williams, algorithm 3.5).

    Returns mean and variance of f, and the log evidence in the form of their equation (3.65), valid for τ > 0.
    """
    n, sign = len(y), 2 * y - 1
    tau, nu, sigma, mu = np.zeros(n), np.zeros(n), K.copy(), np.zeros(n)
    for _ in range(sweeps):
        for i in range(n):
            rest, pull = 1 / sigma[i, i] - tau[i], mu[i] / sigma[i, i] - nu[i]
            m, v = pull / rest, 1 / rest
            z = sign[i] * m / np.sqrt(1 + v)
            hazard = np.exp(norm.logpdf(z) - norm.logcdf(z))
            new_mean = m + sign[i] * v * hazard / np.sqrt(1 + v)
            new_variance = v - v * v * hazard / (1 + v) * (z + hazard)
            change = 1 / new_variance - rest - tau[i]
            tau[i] += change
            nu[i] = new_mean / new_variance - pull
            sigma = sigma - change / (1 + change * sigma[i, i]) * np.outer(sigma[:, i], sigma[:, i])
            mu = sigma @ nu
    v = 1 / (1 / np.diag(sigma) - tau)
    m = v * (mu / np.diag(sigma) - nu)
    spread, target = K + np.diag(1 / tau), nu / tau
    log_z = norm.logcdf(sign * m / np.sqrt(1 + v)).sum() + 0.5 * np.log(v + 1 / tau).sum()
    log_z += ((m - target) ** 2 / (v + 1 / tau)).sum() / 2
    log_z -= 0.5 * np.linalg.slogdet(spread)[1] + 0.5 * target @ np.linalg.solve(spread, target)
    return mu, np.diag(sigma), log_z


@pytest.mark.parametrize("leftover", [0.0, 0.4])
@pytest.mark.parametrize("variance", [1.0, 8.0])
def test_bags_of_one_are_textbook_expectation_propagation(variance, leftover):
    rng = np.random.default_rng(0)
    x, y = rng.normal(scale=2.0, size=12), (rng.random(12) < 0.5).astype(float)
    K = variance * np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-6 * np.eye(12)
    phi, kappa, sizes = np.linalg.cholesky(K), np.full(12, leftover), np.ones(12, dtype=int)
    mean, spread, log_z = textbook_ep(K + np.diag(kappa), y)
    state, chunks = by_ep(phi, kappa, sizes, labels_of(y, sizes), tol=1e-11)
    assert state.log_evidence.item() == pytest.approx(log_z, abs=1e-9)
    # The marginal of f: its cavity and its own message together.
    tau, nu = messages(chunks)
    without = cavity(torch.tensor(phi), torch.tensor(kappa), tau, nu, state._belief)
    variance = 1 / (1 / without.variance + tau)
    np.testing.assert_allclose(variance[:, 0], spread, atol=1e-8)
    np.testing.assert_allclose((variance * (without.mean / without.variance + nu))[:, 0], mean, atol=1e-8)


@pytest.mark.parametrize("y", list(itertools.product([0.0, 1.0], repeat=3)))
def test_evidence_of_bags_of_one_is_that_of_quadrature(y):
    x = np.arange(3.0)
    phi = np.linalg.cholesky(np.exp(-0.5 * (x[:, None] - x) ** 2))
    kappa, sizes = np.zeros(3), np.ones(3, dtype=int)
    log_z, mean, variance = by_grid(phi, kappa, sizes, [table_of(one, 1) for one in y], points=51)
    state, _ = by_ep(phi, kappa, sizes, labels_of(y, sizes))
    assert state.log_evidence.item() == pytest.approx(log_z, abs=1e-3)
    found = moments(state.posterior())
    np.testing.assert_allclose(found[0], mean, atol=2e-3)
    np.testing.assert_allclose(found[1], variance, atol=2e-3)


def test_instances_with_nothing_in_common_are_exact():
    """One message per independent direction is a moment match of the true posterior, and nothing is lost."""
    phi, kappa, sizes, y = np.diag([0.7, 2.5]), np.array([0.0, 0.6]), np.array([1, 1]), [1.0, 0.0]
    log_z, mean, variance = by_grid(phi, kappa, sizes, [table_of(one, 1) for one in y], points=401)
    state, _ = by_ep(phi, kappa, sizes, labels_of(y, sizes), tol=1e-12)
    found = moments(state.posterior())
    assert state.log_evidence.item() == pytest.approx(log_z, abs=1e-8)
    assert log_z == pytest.approx(2 * np.log(0.5), abs=1e-8)
    np.testing.assert_allclose(found[0], mean, atol=1e-8)
    np.testing.assert_allclose(found[1], variance, atol=1e-8)


def test_the_error_vanishes_as_the_evidence_becomes_gaussian():
    """For small kernel variance log cdf(f) is a parabola where f lives, and EP is exact for parabolas."""
    x, y, sizes = np.array([0.0, 0.3, 0.8]), [1.0, 1.0, 0.0], np.ones(3, dtype=int)
    errors = []
    for scale in (2.0, 1.0, 0.5, 0.25):
        phi = scale * np.linalg.cholesky(np.exp(-0.5 * (x[:, None] - x) ** 2))
        log_z, _, _ = by_grid(phi, np.zeros(3), sizes, [table_of(one, 1) for one in y], points=51)
        errors.append(abs(by_ep(phi, np.zeros(3), sizes, labels_of(y, sizes))[0].log_evidence.item() - log_z))
    assert errors[-1] < 1e-6
    assert all(after < before / 4 for before, after in itertools.pairwise(errors)), errors


def loose_fractions(rng, sizes):
    return fraction(np.round(rng.random(len(sizes)) * sizes) / sizes, 2.0)


def certain_fractions(rng, sizes):
    return fraction(rng.integers(0, 2, len(sizes)), 10.0)


def ranges(rng, sizes):
    low = rng.integers(0, 2, len(sizes))
    return count(low, np.minimum(sizes, low + np.maximum(1, sizes // 2)))


def exact_counts(rng, sizes):
    k = rng.integers(0, sizes + 1)
    return count(k, k)


@pytest.mark.parametrize("kind", [loose_fractions, certain_fractions, ranges, exact_counts])
def test_means_under_other_evidence_are_closer_to_quadrature_than_the_mean_field(kind):
    """Exact counts are known to be hard (messages to single instances cannot correlate them); their means are not."""
    closer, errors = 0, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 5, 3)
        phi, kappa = rng.normal(size=(sizes.sum(), 2)), rng.uniform(0, 0.5, sizes.sum())
        statement = kind(rng, sizes)
        evidence = tables_of(statement, sizes)
        _, mean, _ = by_grid(
            phi, kappa, sizes, [np.exp(log_potentials(statement[b], sizes[[b]])) for b in range(3)], points=81
        )
        states = by_ep(phi, kappa, sizes, evidence, tol=1e-6)[0], by_vi(phi, kappa, sizes, evidence)
        found = [np.linalg.norm(moments(state.posterior())[0] - mean) for state in states]
        closer += found[0] < found[1]
        errors.append(found)
    average = np.mean(errors, axis=0)
    assert closer > 6, f"EP closer on {closer} of 12 problems, errors (EP, VI) {average}"
    assert average[0] < 0.7 * average[1], f"errors (EP, VI) {average}"


# ---------------------------------------------------------------- messages


@pytest.fixture(scope="module")
def medium():
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 7, 14)
    phi, kappa = rng.normal(size=(sizes.sum(), 6)), rng.uniform(0, 0.8, sizes.sum())
    y = (rng.random(14) < 0.6).astype(float)
    return phi, kappa, sizes, y


def test_negative_precisions_are_kept_and_matter(medium):
    phi, kappa, sizes, y = medium
    state, chunks = by_ep(phi, kappa, sizes, labels_of(y, sizes))
    tau, _ = messages(chunks)
    share = (tau < 0).double().mean().item()
    assert 0.1 < share < 0.9, f"{share:.0%} of the precisions are negative"
    assert (tau[np.repeat(y == 0, sizes)] > 0).all()  # a negative bag says the same of each of its instances
    assert state.step().residual < 1e-8  # they are where moment matching wants them, not where a limit stops them


@pytest.mark.parametrize("cuts", [[0, 1, 14], [0, 4, 9, 14], list(range(15))])
def test_how_bags_are_cut_into_chunks_does_not_matter(medium, cuts):
    phi, kappa, sizes, y = medium
    evidence = labels_of(y, sizes)
    whole, one = by_ep(phi, kappa, sizes, evidence)
    cut, many = by_ep(phi, kappa, sizes, evidence, cuts)
    for ours, theirs in zip(messages(one), messages(many), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    torch.testing.assert_close(whole.posterior().mean, cut.posterior().mean, rtol=0, atol=1e-10)
    assert whole.log_evidence.item() == pytest.approx(cut.log_evidence.item(), abs=1e-10)


def test_a_bag_without_a_label_sends_nothing_and_changes_nothing(medium):
    phi, kappa, sizes, y = medium
    y = y.copy()
    y[[2, 7, 8]] = NAN
    state, chunks = by_ep(phi, kappa, sizes, labels_of(y, sizes))
    silent = np.repeat(np.isnan(y), sizes)
    for message in messages(chunks):
        assert (message[silent] == 0).all()
        assert (message[~silent] != 0).all()
    seen = ~np.isnan(y)
    without, _ = by_ep(phi[~silent], kappa[~silent], sizes[seen], labels_of(y[seen], sizes[seen]))
    torch.testing.assert_close(state.posterior().mean, without.posterior().mean, rtol=0, atol=1e-9)
    torch.testing.assert_close(state.posterior().factors, without.posterior().factors, rtol=0, atol=1e-9)
    assert state.log_evidence.item() == pytest.approx(without.log_evidence.item(), abs=1e-9)


def test_nothing_observed_leaves_the_prior(medium):
    phi, kappa, sizes, y = medium
    state, _ = by_ep(phi, kappa, sizes, labels_of(y * NAN, sizes))
    assert (state.posterior().mean == 0).all()
    torch.testing.assert_close(state.posterior().factors[0], torch.eye(6, dtype=torch.float64))
    assert state.log_evidence.item() == 0


def test_label_columns_fitted_together_equal_separate_fits(medium):
    phi, kappa, sizes, _ = medium
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, (14, 3)).astype(float)
    y[4, 1] = y[7, 2] = y[9, 2] = NAN
    together, _ = by_ep(phi, kappa, sizes, labels_of(y, sizes), tol=1e-11)
    for k in range(3):
        alone, _ = by_ep(phi, kappa, sizes, labels_of(y[:, [k]], sizes), tol=1e-11)
        for ours, theirs in zip(moments(together.posterior(), k), moments(alone.posterior()), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-8)
        assert together.log_evidence[k].item() == pytest.approx(alone.log_evidence.item(), abs=1e-8)


def test_single_precision_chunks_give_nearly_the_same(medium):
    phi, kappa, sizes, y = medium
    double, chunks = by_ep(phi, kappa, sizes, labels_of(y, sizes))
    design = Design(*(part.float() for part in chunks.chunks[0].design[:2]), segments_of(sizes))
    narrow = InMemory([Chunk(design, ProbitCounts(labels_of(y, sizes)).chunk(slice(0, 14), torch.float32, CPU))])
    state = ExpectationPropagation(narrow, 6, 1, CPU)
    assert iterate(state.step, name="log evidence", max_iter=500, tol=1e-5).converged
    assert narrow.remembered[0].tau.dtype == torch.float32
    assert state.posterior().mean.dtype == torch.float64
    torch.testing.assert_close(state.posterior().mean, double.posterior().mean, rtol=0, atol=1e-4)


def fixed_stride(length):
    """A stride that never changes."""
    stride = Stride(length)
    stride.adapt = lambda *seen: None
    return stride


def test_sweeps_become_shorter_until_messages_settle():
    """Strongly coupled bags: steps of one half go round in circles for ever, shorter ones arrive."""
    rng = np.random.default_rng(2)
    sizes = np.full(10, 15)
    x = rng.normal(size=(150, 1))
    K = 4.0 * np.exp(-0.5 * (x[::12] - x[::12].T) ** 2) + 1e-5 * np.eye(13)
    phi = np.linalg.solve(np.linalg.cholesky(K), 4.0 * np.exp(-0.5 * (x[::12] - x.T) ** 2)).T
    kappa = np.maximum(4.0 - (phi**2).sum(1), 0.0)
    evidence = labels_of((rng.random(10) < 0.7).astype(float), sizes)

    def sweeps(stride):
        state = ExpectationPropagation(chunked(phi, kappa, sizes, evidence), 13, 1, CPU)
        state._stride = stride
        return iterate(state.step, name="log evidence", max_iter=300, tol=1e-6)

    assert sweeps(Stride()).converged
    assert not sweeps(fixed_stride(0.5)).converged


def test_messages_that_drift_get_there_in_longer_sweeps(medium):
    """Where messages creep along, sweeps that do not grow take much longer to the same place."""
    phi, kappa, sizes, y = medium

    def settled(stride):
        state = ExpectationPropagation(chunked(phi, kappa, sizes, labels_of(y, sizes)), phi.shape[1], 1, CPU)
        state._stride = stride
        trace = iterate(state.step, name="log evidence", max_iter=2000, tol=1e-8)
        state.finish()
        return len(trace), state.log_evidence.item()

    (own, log_evidence), (short, same) = settled(Stride()), settled(fixed_stride(0.15))
    assert 2 * own < short
    assert log_evidence == pytest.approx(same, abs=1e-7)


# ---------------------------------------------------------------- safeguards


def one_weight(tau, kappa=0.0):
    """Instances that share one weight, with given messages and the belief that follows from them."""
    tau = torch.tensor(tau, dtype=torch.float64)[:, None]
    n = len(tau)
    design = Design(torch.ones(n, 1, dtype=torch.float64), torch.full((n,), kappa).double(), segments_of([1] * n))
    chunk = Chunk(
        design, ProbitCounts(labels_of(np.ones(n), np.ones(n, dtype=int))).chunk(slice(0, n), torch.float64, CPU)
    )
    precision = 1.0 + (tau / (1 + tau * kappa)).sum()
    return chunk, tau, Belief(torch.zeros(1, 1, dtype=torch.float64), precision.rsqrt().reshape(1, 1, 1))


def test_a_message_whose_cavity_does_not_exist_is_left_alone_and_keeps_the_iteration_going():
    """A = 1 + 1 − 1.5 is positive, but without the first message it would be 1 − 1.5."""
    chunk, tau, belief = one_weight([1.0, -1.5])
    assert cavity(*chunk.design[:2], tau, torch.zeros_like(tau), belief).sound[:, 0].tolist() == [False, True]
    zeros = torch.zeros_like(tau)
    sums, sites = propose_step(chunk, Sites(tau, zeros, (tau, zeros), (tau, zeros)), belief)
    assert sites.goal[0][0] == tau[0]
    assert sites.goal[0][1] != tau[1]
    assert sums["stuck"] == 1
    assert torch.isfinite(sums["log_z"]).all()


class Stuck(InMemory):
    """Chunks with a message that can never be updated, everything else at rest."""

    def sweep(self, step, shared):
        sums = super().sweep(step, shared)
        return sums | {"stuck": torch.ones((), dtype=torch.int64)} if "stuck" in sums else sums


def test_messages_that_can_never_be_updated_are_a_failure_and_not_a_fixed_point():
    chunk, _, _ = one_weight([0.0, 0.0])
    state = ExpectationPropagation(Stuck([chunk]), 1, 1, CPU)
    assert all(state.step().residual >= 1.0 for _ in range(15))
    with pytest.raises(NumericalError, match="the messages to 1 instances rest on others that cancel them"):
        iterate(state.step, name="log evidence", max_iter=100, tol=1e-4)


def test_a_step_keeps_the_leftover_variance_positive():
    chunk, _, _ = one_weight([0.0, 0.0], kappa=0.5)
    zeros = torch.zeros(2, 1, dtype=torch.float64)
    goal = torch.tensor([[-10.0], [3.0]], dtype=torch.float64), zeros
    _, sites = move_step(chunk, Sites(zeros, zeros, (zeros, zeros), goal), 1.0)
    assert -2.0 < sites.tau[0] < 0.0  # 1 + τκ > 0
    assert sites.tau[1] == 3.0  # the other message goes all the way


class Hopeless:
    """Chunks whose messages never leave a positive definite precision."""

    def sweep(self, step, shared):
        return {"precision": -10.0 * torch.eye(2).double()[None], "shift": torch.zeros(2, 1).double()}


def test_where_no_step_is_short_enough_it_says_so():
    state = ExpectationPropagation(Hopeless(), 2, 1, CPU)
    with pytest.raises(NumericalError, match="no step that keeps the precision positive definite"):
        state._move(0.5)


def test_a_shorter_step_is_taken_where_the_precision_would_not_be_positive_definite():
    chunk, _, _ = one_weight([0.0, 0.0])
    zeros = torch.zeros(2, 1, dtype=torch.float64)
    far = torch.full((2, 1), -3.0, dtype=torch.float64)  # all the way: 1 − 6 < 0
    chunks = InMemory([chunk], [Sites(zeros, zeros, (zeros, zeros), (far, zeros))])
    state = ExpectationPropagation(chunks, 1, 1, CPU)
    state._move(0.5)
    tau = chunks.remembered[0].tau
    assert (tau == -0.375).all()  # halved twice: 1 − 0.75 > 0
    assert state.posterior().factors.item() == pytest.approx(0.5)


def test_a_log_evidence_above_its_ceiling_is_not_plausible(medium):
    phi, kappa, sizes, y = medium
    state, _ = by_ep(phi, kappa, sizes, labels_of(y, sizes))
    value = state.log_evidence.clone()
    assert state.plausible(torch.zeros(1).double())
    assert state.plausible(value - 1e-9)  # rounding
    assert not state.plausible(value - 1e-3)
    state.log_evidence = value * NAN
    assert not state.plausible(torch.zeros(1).double())


def test_messages_can_be_taken_up_again(medium):
    phi, kappa, sizes, y = medium
    state, chunks = by_ep(phi, kappa, sizes, labels_of(y, sizes))
    tau, nu = messages(chunks)
    again = ExpectationPropagation(chunks, 6, 1, CPU)
    again.resume()
    for ours, theirs in zip(messages(chunks), (tau, nu), strict=True):
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(again.posterior().mean, state.posterior().mean, rtol=0, atol=1e-12)
    assert iterate(again.step, name="log evidence", max_iter=10, tol=1e-8).converged


# ---------------------------------------------------------------- the gradient of the evidence


def kernel_design(theta, inducing, x, segments):
    """Whitened features of an RBF kernel as a differentiable function of log lengthscale and log variance."""
    lengthscale, variance = theta.exp()

    def between(a, b):
        return variance * torch.exp(-0.5 * (a[:, None] - b).square() / lengthscale**2)

    lower = torch.linalg.cholesky(between(inducing, inducing) + 1e-8 * torch.eye(len(inducing)).double())
    phi = torch.linalg.solve_triangular(lower, between(inducing, x), upper=False).T
    return Design(phi, (variance - phi.square().sum(1)).clamp(min=0.0), segments)


@pytest.fixture(scope="module", params=["kappa > 0", "kappa = 0"])
def family(request):
    """A small problem for every θ, with few inducing inputs (κ > 0) or all of them (κ = 0)."""
    rng = np.random.default_rng(8)
    sizes = np.array([3, 2, 4, 1, 2])
    x = torch.tensor(np.sort(rng.uniform(-4, 4, sizes.sum())))
    x = x[torch.tensor(rng.permutation(len(x)))]
    inducing = x if request.param == "kappa = 0" else torch.tensor([-3.0, -0.5, 2.0]).double()
    evidence = ProbitCounts(labels_of([1, 0, 1, 1, 0], sizes)).chunk(slice(0, 5), torch.float64, CPU)
    return lambda theta: Chunk(kernel_design(theta, inducing, x, segments_of(sizes)), evidence)


THETA = torch.tensor([0.3, 0.8], dtype=torch.float64)


def settled(chunk):
    chunks = InMemory([chunk])
    state = ExpectationPropagation(chunks, chunk.design.phi.shape[1], 1, CPU)
    assert iterate(state.step, name="log evidence", max_iter=3000, tol=1e-12).converged
    state.finish()
    return state, chunks.remembered[0]


def gradient_at(family, theta, sites, belief):
    theta = theta.clone().requires_grad_()
    pull_back(family(theta), sites.tau, sites.nu, belief).backward()
    return theta.grad


def test_gradient_at_settled_messages_is_the_total_derivative(family):
    """Moving the kernel moves the messages too, but at their fixed point the evidence does not feel it (section 4)."""
    state, sites = settled(family(THETA))
    gradient, step = gradient_at(family, THETA, sites, state.belief), 1e-4
    for i in range(2):
        change = step * torch.eye(2).double()[i]
        up, down = (settled(family(THETA + sign * change))[0].log_evidence.item() for sign in (1, -1))
        assert gradient[i].item() == pytest.approx((up - down) / (2 * step), abs=1e-5)
