"""One site per bag: against its equations written out, against quadrature, against ordinary EP, and in other cuts."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.problems import features_of, random_bags, random_labels, segments_of

from bagwise import BagGP, Bags
from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import count, log_potentials
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.inference.bag_propagation import POINTS, BagPropagation, in_runs, linearise, standard_points
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.inference.engines import Limits, by_bag_sites
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import SILENT, iterate

CPU = torch.device("cpu")
NAN = np.nan


# ---------------------------------------------------------------- problems and references


def problem(seed, n_bags=5, sizes=(1, 6), n_columns=2):
    """Rows whose last feature is a constant, leftover variances, sizes and labels of both kinds."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(sizes[0], sizes[1] + 1, n_bags)
    phi = np.column_stack([rng.normal(size=(counts.sum(), n_columns - 1)), np.ones(counts.sum())])
    return phi, 0.5 * rng.random(len(phi)), counts, (np.arange(n_bags) % 2).astype(float)


def labels_of(y, sizes, noise=0.0):
    return CountEvidence(np.asarray(y, dtype=float).reshape(len(sizes), 1), np.asarray(sizes), label_noise=noise)


def chunked(phi, kappa, evidence, cuts=None):
    sizes = np.diff(evidence.offsets)
    chunks = []
    for first, last in itertools.pairwise([0, len(sizes)] if cuts is None else cuts):
        rows = slice(evidence.offsets[first], evidence.offsets[last])
        design = Design(torch.tensor(phi[rows]), torch.tensor(kappa[rows]), segments_of(sizes[first:last]))
        chunks.append(Chunk(design, ProbitCounts(evidence).chunk(slice(first, last), torch.float64, CPU)))
    return InMemory(chunks)


def settled(chunks, n_columns, seed=0, tol=1e-10, start=None):
    state = BagPropagation(chunks, n_columns, CPU, seed)
    if start is not None:
        state.resume(start)
    assert iterate(state.step, name="log evidence", max_iter=500, tol=tol).converged
    state.finish()
    return state


def by_bags(phi, kappa, evidence, cuts=None, **changes):
    return settled(chunked(phi, kappa, evidence, cuts), phi.shape[1], **changes)


def by_instances(phi, kappa, evidence):
    state = ExpectationPropagation(chunked(phi, kappa, evidence), phi.shape[1], 1, CPU)
    assert iterate(state.step, name="log evidence", max_iter=5000, tol=1e-11).converged
    state.finish()
    return state


def moments(state):
    posterior = state.posterior()
    return posterior.mean[:, 0].numpy(), torch.cholesky_inverse(posterior.factors[0]).numpy()


def assert_same(state, other, tolerance):
    for part, expected in zip(moments(state), moments(other), strict=True):
        np.testing.assert_allclose(part, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(state.log_evidence, other.log_evidence, rtol=tolerance, atol=tolerance)


def by_quadrature(phi, kappa, sizes, y, noise=0.0, width=8.0, n=321):
    """log Z, mean and covariance of v in two dimensions, by a grid."""
    line = np.linspace(-width, width, n)
    v = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    log_weight = norm.logpdf(v).sum(1) + 2.0 * np.log(line[1] - line[0])
    each = norm.logcdf(-(v @ phi.T) / np.sqrt(1.0 + kappa))
    for label, rows in zip(y, np.split(np.arange(len(phi)), np.cumsum(sizes)[:-1]), strict=True):
        negative = np.exp(each[:, rows].sum(1))
        right = negative if label == 0 else 1.0 - negative
        log_weight = log_weight + np.log(np.maximum(noise + (1.0 - 2.0 * noise) * right, 1e-300))
    weight = np.exp(log_weight)
    share = weight / weight.sum()
    mean = share @ v
    return np.log(weight.sum()), mean, (v - mean).T @ ((v - mean) * share[:, None])


def as_written(phi, kappa, sizes, y, points):
    """The fixed point of (13.2) by its equations, bag after bag and without regard for speed."""
    n_bags, n_columns = len(sizes), phi.shape[1]
    sign, bags = 2.0 * y - 1.0, np.split(np.arange(len(phi)), np.cumsum(sizes)[:-1])
    tau, nu = np.zeros(n_bags), np.zeros(n_bags)
    mean, covariance = np.zeros(n_columns), np.eye(n_columns)
    a, c = np.zeros((n_bags, n_columns)), np.zeros(n_bags)
    for turn in range(150):
        draws = mean[:, None] + np.linalg.inv(np.linalg.cholesky(np.linalg.inv(covariance))).T @ points
        for bag, rows in enumerate(bags):
            s = np.sqrt(1.0 + kappa[rows])
            z = phi[rows] @ draws / s[:, None]
            total = norm.logcdf(-z).sum(0)
            g = -norm.ppf(np.exp(total))
            slope = np.exp(total) / norm.pdf(g) * norm.pdf(z) / norm.cdf(-z) / s[:, None]
            row = slope.mean(1) @ phi[rows]
            linear = g.mean() + row @ (draws - draws.mean(1, keepdims=True))
            scale = np.sqrt(1.0 + np.mean((g - linear) ** 2))
            share = 1.0 if turn == 0 else 0.5
            a[bag] += share * (row / scale - a[bag])
            c[bag] += share * ((g.mean() - row @ draws.mean(1)) / scale - c[bag])
        for _ in range(30):
            weight = np.einsum("bi,ij,bj->b", a, covariance, a)
            left = 1.0 - tau * weight
            m, v = (a @ mean - nu * weight) / left, weight / left
            z = sign * (m + c) / np.sqrt(1.0 + v)
            ratio = sign * norm.pdf(z) / norm.cdf(z) / np.sqrt(1.0 + v)
            bend = -(ratio**2) - sign * z * ratio / np.sqrt(1.0 + v)
            tau += 0.5 * (-bend / (1.0 + v * bend) - tau)
            nu += 0.5 * ((ratio - bend * m) / (1.0 + v * bend) - nu)
            covariance = np.linalg.inv(np.eye(n_columns) + (a.T * tau) @ a)
            mean = covariance @ (a.T @ nu)
    return mean, covariance


# ---------------------------------------------------------------- the fixed point


@pytest.mark.parametrize("seed", range(4))
def test_settled_sites_are_the_fixed_point_of_the_equations_as_written(seed):
    phi, kappa, sizes, y = problem(seed)
    state = by_bags(phi, kappa, labels_of(y, sizes))
    for found, expected in zip(moments(state), as_written(phi, kappa, sizes, y, state.points.numpy()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("n_columns", [2, 3])
def test_bags_of_one_equal_ordinary_expectation_propagation(noise, n_columns):
    phi, kappa, sizes, y = problem(3, n_bags=9, sizes=(1, 1), n_columns=n_columns)
    y[4] = NAN
    evidence = labels_of(y, sizes, noise)
    assert_same(by_bags(phi, kappa, evidence), by_instances(phi, kappa, evidence), 1e-6)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_single_instance_is_exact(label):
    phi, kappa = np.array([[1.3, -0.4]]), np.array([0.3])
    state = by_bags(phi, kappa, labels_of([label], [1]))
    log_z, mean, covariance = by_quadrature(phi, kappa, [1], [label])
    assert state.log_evidence.item() == pytest.approx(log_z, abs=1e-6)
    np.testing.assert_allclose(moments(state)[0], mean, atol=1e-6)
    np.testing.assert_allclose(moments(state)[1], covariance, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_evidence_and_mean_are_near_those_of_quadrature(noise):
    off, away = [], []
    for seed in range(8):
        phi, kappa, sizes, y = problem(seed)
        state = by_bags(phi, kappa, labels_of(y, sizes, noise))
        log_z, mean, covariance = by_quadrature(phi, kappa, sizes, y, noise)
        off.append(state.log_evidence.item() - log_z)
        away.append(np.abs(moments(state)[0] - mean) / np.sqrt(np.diag(covariance)))
    assert np.abs(off).max() < 0.3
    assert np.abs(off).mean() < 0.1
    assert np.max(away) < 0.3


@pytest.mark.parametrize("size", [2, 3, 6])
def test_moments_of_a_single_positive_bag_are_near_those_of_quadrature(size):
    phi, kappa, sizes, _ = problem(size, n_bags=1, sizes=(size, size))
    state = by_bags(phi, kappa, labels_of([1.0], sizes))
    log_z, mean, covariance = by_quadrature(phi, kappa, sizes, [1.0])
    assert state.log_evidence.item() == pytest.approx(log_z, abs=0.03)
    np.testing.assert_allclose(moments(state)[0], mean, atol=0.05)
    np.testing.assert_allclose(moments(state)[1], covariance, atol=0.15)


def test_a_bag_of_copies_has_the_evidence_of_quadrature():
    phi, kappa = np.tile([[0.7, 1.0]], (5, 1)), np.zeros(5)
    for label in (0.0, 1.0):
        state = by_bags(phi, kappa, labels_of([label], [5]))
        assert state.log_evidence.item() == pytest.approx(by_quadrature(phi, kappa, [5], [label])[0], abs=0.02)


def test_a_bag_of_two_thousand_rows_settles_and_is_near_quadrature():
    rng = np.random.default_rng(0)
    sizes = np.array([2000, 3, 40, 5])
    phi = np.column_stack([0.3 * rng.normal(size=sizes.sum()), np.ones(sizes.sum())])
    y = np.array([0.0, 1.0, 1.0, 0.0])
    state = by_bags(phi, np.full(len(phi), 0.01), labels_of(y, sizes))
    log_z, mean, covariance = by_quadrature(phi, np.full(len(phi), 0.01), sizes, y, width=6.0, n=97)
    assert state.log_evidence.item() == pytest.approx(log_z, abs=1.2)
    np.testing.assert_array_less(np.abs(moments(state)[0] - mean) / np.sqrt(np.diag(covariance)), 0.7)


# ---------------------------------------------------------------- evidence of other kinds


def test_missing_labels_are_bags_left_out():
    phi, kappa, sizes, y = problem(1, n_bags=6)
    y[[1, 4]] = NAN
    kept = np.repeat(~np.isnan(y), sizes)
    whole = by_bags(phi, kappa, labels_of(y, sizes))
    fewer = by_bags(phi[kept], kappa[kept], labels_of(y[~np.isnan(y)], sizes[~np.isnan(y)]))
    assert_same(whole, fewer, 1e-9)


def test_a_chunk_without_any_label_adds_nothing():
    phi, kappa, sizes, y = problem(1, n_bags=6)
    y[2:4] = NAN
    evidence = labels_of(y, sizes)
    assert_same(by_bags(phi, kappa, evidence, [0, 2, 4, 6]), by_bags(phi, kappa, evidence), 1e-9)


def test_without_labels_the_prior_stays():
    phi, kappa, sizes, _ = problem(1)
    state = by_bags(phi, kappa, labels_of(np.full(len(sizes), NAN), sizes))
    assert state.log_evidence.item() == 0.0
    np.testing.assert_array_equal(moments(state)[0], 0.0)
    np.testing.assert_allclose(moments(state)[1], np.eye(2))


def mixed():
    """Labelled bags of one, a bag with known instances, and a bag whose count is limited."""
    sizes = np.array([1, 3, 1, 1, 4, 1])
    phi, kappa, _, _ = problem(5, n_bags=11, sizes=(1, 1))
    labels = np.array([0.0, NAN, 1.0, 1.0, NAN, 0.0])[:, None]
    known = np.full(sizes.sum(), NAN)
    known[1:3] = 1.0, 0.0
    low, high = np.where(np.isnan(labels[:, 0]), [0, 1, 0, 0, 0, 0], 0), np.minimum(sizes, [1, 3, 1, 1, 1, 1])
    table = log_potentials(count(low, high), sizes)
    by_table = np.isnan(labels[:, 0])
    return phi, kappa, CountEvidence(labels, sizes, (table,), (by_table,), known)


@pytest.mark.parametrize("cuts", [None, [0, 2, 6], [0, 1, 2, 3, 4, 5, 6]])
def test_known_instances_and_counts_keep_their_messages_beside_labelled_bags(cuts):
    phi, kappa, evidence = mixed()
    assert_same(by_bags(phi, kappa, evidence, cuts), by_instances(phi, kappa, evidence), 1e-6)


def test_several_label_columns_are_each_their_own():
    rng = np.random.default_rng(0)
    bags = random_bags(rng)
    y = np.column_stack([random_labels(rng, bags), random_labels(rng, bags)])
    y[3, 1] = NAN
    features, limits = features_of(bags), Limits(None, 1e-9, SILENT)
    both = by_bag_sites(features, bags, CountEvidence(y, bags.sizes), limits, 0)
    for column in range(2):
        one = by_bag_sites(features, bags, CountEvidence(y[:, [column]], bags.sizes), limits, 0)
        torch.testing.assert_close(both.posterior.mean[:, column], one.posterior.mean[:, 0])
        own = both.posterior.factors[both.posterior.factor_of[column]]
        torch.testing.assert_close(own, one.posterior.factors[0])
        assert both.log_evidence[column].item() == pytest.approx(one.log_evidence.item())


# ---------------------------------------------------------------- what must not matter


@pytest.mark.parametrize("cuts", [[0, 1, 7], [0, 3, 4, 7], list(range(8))])
def test_cuts_into_chunks_change_nothing(cuts):
    phi, kappa, sizes, y = problem(2, n_bags=7, n_columns=3)
    evidence = labels_of(y, sizes)
    assert_same(by_bags(phi, kappa, evidence, cuts), by_bags(phi, kappa, evidence), 1e-9)


def test_order_of_bags_changes_nothing():
    phi, kappa, sizes, y = problem(2, n_bags=7, n_columns=3)
    order = np.random.default_rng(0).permutation(7)
    rows = np.concatenate([np.split(np.arange(len(phi)), np.cumsum(sizes)[:-1])[bag] for bag in order])
    turned = by_bags(phi[rows], kappa[rows], labels_of(y[order], sizes[order]))
    assert_same(turned, by_bags(phi, kappa, labels_of(y, sizes)), 1e-9)


def test_order_of_rows_within_bags_changes_nothing():
    phi, kappa, sizes, y = problem(2, n_bags=7, n_columns=3)
    rows = np.concatenate([part[::-1] for part in np.split(np.arange(len(phi)), np.cumsum(sizes)[:-1])])
    evidence = labels_of(y, sizes)
    assert_same(by_bags(phi[rows], kappa[rows], evidence), by_bags(phi, kappa, evidence), 1e-9)


def test_a_warm_start_reaches_the_same_fixed_point_from_another_kernel():
    phi, kappa, sizes, y = problem(4, n_bags=7, n_columns=3)
    evidence = labels_of(y, sizes)
    before = chunked(1.3 * phi, kappa, evidence, [0, 3, 7])
    last = settled(before, 3)
    warm = InMemory(chunked(phi, kappa, evidence, [0, 3, 7]).chunks, before.remembered)
    assert_same(settled(warm, 3, start=last.belief), by_bags(phi, kappa, evidence), 1e-7)


def test_a_warm_start_with_messages_of_single_instances_reaches_the_same_fixed_point():
    phi, kappa, evidence = mixed()
    before = chunked(1.2 * phi, kappa, evidence)
    last = settled(before, 2)
    warm = InMemory(chunked(phi, kappa, evidence).chunks, before.remembered)
    assert_same(settled(warm, 2, start=last.belief), by_bags(phi, kappa, evidence), 1e-6)


def test_numbers_that_are_none_are_an_error():
    phi, kappa, sizes, y = problem(0)
    phi[0, 0] = NAN
    with pytest.raises(NumericalError):
        by_bags(phi, kappa, labels_of(y, sizes))


# ---------------------------------------------------------------- its parts


def test_standard_points_are_centred_scaled_and_follow_their_seed():
    points = standard_points(5, 3)
    assert points.shape == (5, POINTS)
    np.testing.assert_allclose(points.mean(1), 0.0, atol=1e-12)
    np.testing.assert_allclose(points.square().mean(1), 1.0)
    assert torch.equal(points, standard_points(5, 3))
    assert not torch.equal(points, standard_points(5, 4))


@pytest.mark.parametrize("far", [0.0, 6.0, -6.0, 30.0])
def test_rows_of_bags_have_the_right_gradient_in_both_tails(far):
    phi, kappa, sizes, _ = problem(1)
    phi[:, -1] = far
    given = torch.tensor(phi, requires_grad=True), torch.tensor(kappa, requires_grad=True)
    draws = standard_points(2, 0)[:, :8].clone()
    draws[1] = 0.5 + 0.1 * draws[1]
    assert torch.autograd.gradcheck(
        lambda rows, left: tuple(linearise(rows, left, segments_of(sizes), draws)), given, eps=1e-6, rtol=1e-4
    )


def test_bags_that_are_all_but_certain_stay_finite_as_rows():
    phi, kappa, sizes, _ = problem(1)
    for far in (-1e3, -40.0, 40.0, 1e3):
        found = linearise(
            torch.tensor(far * np.abs(phi)), torch.tensor(kappa), segments_of(sizes), torch.ones(2, 4).double()
        )
        assert all(torch.isfinite(part).all() for part in found)


# ---------------------------------------------------------------- many directions: importance sampling


def drawn_problem(seed, n_bags=30, sizes=(20, 60), n_columns=5):
    """Labels of large bags drawn from the model itself, its constant so low that about half of them are positive."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(sizes[0], sizes[1] + 1, n_bags)
    phi = np.column_stack([rng.normal(size=(counts.sum(), n_columns - 1)), np.full(counts.sum(), 3.0)])
    kappa = 0.2 * rng.random(len(phi))
    f = phi @ np.r_[rng.normal(size=n_columns - 1), -1.3] + np.sqrt(1.0 + kappa) * rng.normal(size=len(phi))
    return phi, kappa, counts, np.logical_or.reduceat(f > 0, np.r_[0, np.cumsum(counts)[:-1]]).astype(float)


def importance_sampled(state, phi, kappa, sizes, y, n_draws=5_000):
    """log p(Y) = log E_q[p(Y | v) N(v; 0, I)/q(v)] with q the posterior found, widened, and its standard error."""
    mean, covariance = moments(state)
    root = 1.5 * np.linalg.cholesky(covariance)
    normals = np.random.default_rng(0).normal(size=(n_draws, len(mean)))
    v = mean + normals @ root.T
    scores = v @ (phi / np.sqrt(1.0 + kappa)[:, None]).T
    negative = np.add.reduceat(norm.logcdf(-scores), np.r_[0, np.cumsum(sizes)[:-1]], axis=1)
    likelihood = np.where(y == 1, np.log(-np.expm1(np.minimum(negative, -1e-300))), negative).sum(axis=1)
    weight = likelihood - 0.5 * np.square(v).sum(axis=1) + 0.5 * np.square(normals).sum(axis=1)
    weight += np.log(np.diag(root)).sum()
    scaled = np.exp(weight - weight.max())
    return weight.max() + np.log(scaled.mean()), scaled.std() / scaled.mean() / np.sqrt(n_draws)


@pytest.mark.parametrize("seed", [3, 5, 7])
def test_log_evidence_of_large_bags_is_near_importance_sampling(seed):
    phi, kappa, sizes, y = drawn_problem(seed)
    state = by_bags(phi, kappa, labels_of(y, sizes), tol=1e-6)
    expected, error = importance_sampled(state, phi, kappa, sizes, y)
    assert error < 0.15
    assert abs(float(state.log_evidence) - expected) < 1.7 + 4 * error  # theory 13.3: within 1.7 nats


# ---------------------------------------------------------------- how far rows follow


@pytest.mark.parametrize(
    ("n_rows", "turns", "less"), [(100, False, True), (100, True, True), (10**6, False, False), (10**6, True, True)]
)
def test_of_many_rows_less_is_followed_only_if_the_mean_goes_to_and_fro(n_rows, turns, less):
    state = BagPropagation(InMemory([]), 2, CPU, 0)
    state._n_rows = n_rows
    for turn in range(20):
        state._moves = [*state._moves[-7:], torch.ones(2, 1) * (-1.0) ** (turn * turns)]
        state._adapt(1.0)
    assert (state._share > 0) == less


def test_number_of_rows_is_that_of_labelled_bags():
    phi, kappa, sizes, y = problem(0)
    y[1] = NAN
    state = BagPropagation(chunked(phi, kappa, labels_of(y, sizes), cuts=[0, 2, 5]), 2, CPU, 0)
    state.step()
    assert state._n_rows == sizes.sum() - sizes[1]
    assert len(state._moves) == 1


@pytest.mark.statistical
def test_bags_of_ten_thousand_rows_settle():
    random = np.random.default_rng(0)
    rows = random.normal(size=(6, 10_000, 5))
    rows[1::2, :500, 0] += 4.0
    model = BagGP(learn=False, random_state=0).fit(Bags.from_list(rows), [0, 1] * 3)
    assert model.inference_ == "bag-ep"
    assert model.converged_


def test_a_processor_looks_at_a_large_chunk_by_runs_of_bags_and_sees_the_same(monkeypatch):
    rows, kappa, sizes, _ = problem(0, 12, (1, 9), 3)
    design = Design(torch.from_numpy(rows), torch.from_numpy(kappa), segments_of(sizes))
    own, draws = torch.arange(12.0), standard_points(3, 0)

    def answer(some, numbers):
        return *linearise(some.phi, some.kappa, some.segments, draws), numbers

    whole = answer(design, own)
    monkeypatch.setattr("bagwise.inference.bag_propagation._RUN", 10)
    assert len(list(design.runs(10))) > 3
    for mine, expected in zip(in_runs(answer, design, own), whole, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)
