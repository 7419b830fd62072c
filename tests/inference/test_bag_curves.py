"""Sites of whole bags that match moments: against quadrature, against messages, and in other cuts."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import norm
from tests.problems import segments_of

from bagwise import BagGP, ConvergenceWarning
from bagwise.bag_models.counts import ProbitCounts
from bagwise.datasets import make_bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.inference import engines
from bagwise.inference.bag_curves import BagCurves, curve_step, turn_step
from bagwise.inference.bag_propagation import BagPropagation
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import iterate

CPU = torch.device("cpu")
GRID = np.linspace(-12.0, 12.0, 24_001)


def chunks_of(phi, kappa, sizes, y, cuts=None, known=None, noise=0.0, weight=None):
    evidence = CountEvidence(np.asarray(y, dtype=float)[:, None], np.asarray(sizes), known=known, label_noise=noise)
    evidence = evidence.weighted(weight)
    ends, found = np.cumsum([0, *sizes]), []
    for first, last in itertools.pairwise(cuts or [0, len(sizes)]):
        rows = slice(ends[first], ends[last])
        design = Design(torch.tensor(phi[rows]), torch.tensor(kappa[rows]), segments_of(sizes[first:last]))
        found.append(Chunk(design, ProbitCounts(evidence).chunk(slice(first, last), torch.float64, CPU)))
    return InMemory(found)


def by_lines(chunks, n_columns, tol=1e-9):
    state = BagPropagation(chunks, n_columns, CPU, 0)
    assert iterate(state.step, name="log evidence", max_iter=500, tol=tol).converged
    state.finish()
    return state


def by_curves(chunks, n_columns, tol=1e-9):
    state = by_lines(chunks, n_columns)
    state.look_by(turn_step, curve_step)
    assert iterate(state.step, name="log evidence", max_iter=500, tol=tol).converged
    state.finish()
    return state


def found(state):
    posterior = state.posterior()
    return (
        float(state.log_evidence),
        posterior.mean[:, 0].numpy(),
        torch.cholesky_inverse(posterior.factors[0]).numpy(),
    )


def exactly(sizes, y, slope, noise=0.0, weight=None):
    """log evidence, mean and standard deviation of one weight v, where every row has the feature ``slope``."""
    logs = norm.logpdf(GRID)
    for size, label, times in zip(sizes, y, np.ones(len(sizes)) if weight is None else weight, strict=True):
        negative = np.exp(size * log_ndtr(-slope * GRID))
        chance = 1.0 - negative if label == 1 else negative
        logs = logs + times * np.log(noise + (1.0 - 2.0 * noise) * chance + 1e-300)
    weights = np.exp(logs - logs.max())
    step, total = GRID[1] - GRID[0], weights.sum()
    mean = weights @ GRID / total
    return np.log(total * step) + logs.max(), mean, np.sqrt(weights @ np.square(GRID - mean) / total)


def alike(sizes, slope=1.0):
    """Rows that are all the same."""
    return np.full((sum(sizes), 1), slope), np.zeros(sum(sizes))


@pytest.mark.parametrize(("size", "label", "noise"), [(200, 1, 0.0), (200, 0, 0.0), (3, 1, 0.0), (40, 1, 0.1)])
def test_one_bag_of_rows_that_are_alike_is_exact(size, label, noise):
    state = by_curves(chunks_of(*alike([size]), [size], [label], noise=noise), 1)
    log_evidence, mean, sd = exactly([size], [label], 1.0, noise)
    assert float(state.log_evidence) == pytest.approx(log_evidence, abs=3e-3)
    assert found(state)[1][0] == pytest.approx(mean, abs=3e-3)
    assert np.sqrt(found(state)[2][0, 0]) == pytest.approx(sd, rel=2e-3)


def test_labels_that_are_certain_anyhow_say_little():
    """Thirty positive bags of 200: lines push the latent value far up, moments leave it where it belongs."""
    sizes, y, slope = [200] * 30, [1] * 30, 1.5
    log_evidence, mean, sd = exactly(sizes, y, slope)
    lines, curves = (
        np.abs([evidence - log_evidence, (m[0] - mean) / sd, np.sqrt(cov[0, 0]) / sd - 1.0])
        for how in (by_lines, by_curves)
        for evidence, m, cov in [found(how(chunks_of(*alike(sizes, slope), sizes, y), 1))]
    )
    assert (curves < [0.15, 0.15, 0.25]).all()
    assert (lines > [0.3, 0.3, 0.35]).all()


@pytest.mark.parametrize("seed", range(3))
def test_bags_of_one_have_the_sites_of_messages(seed):
    rng = np.random.default_rng(seed)
    phi, kappa, sizes, y = 0.8 * rng.normal(size=(6, 2)), 0.5 * rng.random(6), [1] * 6, [1, 0, 1, 0, np.nan, 1]
    curves = by_curves(chunks_of(phi, kappa, sizes, y), 2)
    messages = ExpectationPropagation(chunks_of(phi, kappa, sizes, y), 2, 1, CPU)
    assert iterate(messages.step, name="log evidence", max_iter=500, tol=1e-9).converged
    messages.finish()
    for ours, theirs in zip(found(curves), found(messages), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)


def mixed_problem(seed=4):
    rng = np.random.default_rng(seed)
    sizes = [12, 30, 7, 25, 18, 9, 40]
    phi = np.column_stack([rng.normal(size=(sum(sizes), 2)), np.full(sum(sizes), 2.0)])
    known = np.full(sum(sizes), np.nan)
    known[[13, 50, 75]] = [1.0, 0.0, 0.0]
    return phi, 0.3 * rng.random(len(phi)), sizes, np.array([1, 0, np.nan, 1, 0, np.nan, 1.0]), known


def test_cuts_into_chunks_change_nothing():
    phi, kappa, sizes, y, _ = mixed_problem()
    whole, parts = (
        found(by_curves(chunks_of(phi, kappa, sizes, y, cuts), 3, tol=1e-7)) for cuts in (None, [0, 2, 3, 7])
    )
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


def test_whole_weights_are_repeated_bags():
    sizes, y, times = [5, 30, 12], [1, 0, 1], np.array([2.0, 1.0, 3.0])
    again = np.repeat(np.arange(3), times.astype(int))
    rng = np.random.default_rng(0)
    phi, kappa = np.column_stack([rng.normal(size=47), np.full(47, 2.0)]), 0.2 * rng.random(47)
    rows = np.concatenate([np.arange(47)[slice(*np.cumsum([0, *sizes])[b : b + 2])] for b in again])
    weighted = by_curves(chunks_of(phi, kappa, sizes, y, weight=times), 2, tol=1e-8)
    repeated = by_curves(
        chunks_of(phi[rows], kappa[rows], [sizes[b] for b in again], [y[b] for b in again]), 2, tol=1e-8
    )
    for one, other in zip(found(weighted), found(repeated), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rows_that_say_nothing_about_v_leave_it_alone():
    sizes = [4, 6]
    state = by_curves(chunks_of(np.zeros((10, 2)), np.zeros(10), sizes, [1, 0]), 2)
    log_evidence, mean, covariance = found(state)
    assert log_evidence == pytest.approx(np.log(1.0 - 0.5**4) + 6 * np.log(0.5))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(covariance, np.eye(2))


def test_slopes_of_curves_are_derivatives_of_their_log_z():
    state = by_curves(chunks_of(*mixed_problem()[:4]), 3, tol=1e-5)
    pooled = state._chunks.remembered[0]
    curves, segments = pooled.chunk.evidence, pooled.chunk.design.segments
    assert isinstance(curves, BagCurves)
    mean = curves.places[:, [5]].clone()
    variance, h = torch.full_like(mean, 0.7), 1e-4
    (below, _, _), (here, g1, g2), (above, _, _) = (
        curves.slopes(mean + move, variance, segments) for move in (-h, 0.0, h)
    )
    torch.testing.assert_close((above - below) / (2 * h), g1, rtol=1e-5, atol=1e-6)
    bend = (above - 2 * here + below) / h**2
    assert bool((bend < -0.05).any())
    torch.testing.assert_close(bend.clamp(max=0.0), g2, rtol=1e-4, atol=1e-5)


SETTINGS = {"learn": False, "inference": "bag-ep", "random_state": 0, "n_inducing": 10, "size_effect": False}


def test_an_answer_of_lines_is_given_with_a_warning_where_curves_fail(monkeypatch):
    bags, y, _ = make_bags(20, (2, 6), random_state=0)

    def broken(chunk, pooled, look):
        raise NumericalError("no curve at all")

    monkeypatch.setattr(engines, "curve_step", broken)
    with pytest.warns(ConvergenceWarning, match="no curve at all.*the answer is that of lines"):
        model = BagGP(**SETTINGS).fit(bags, y)
    assert model.converged_
    assert model.inference_ == "bag-ep"


def test_an_answer_of_lines_is_given_where_curves_lose_log_evidence(monkeypatch):
    """Labels of bags, and of every row of a negative one, that curves call a thousand times less probable."""
    bags, y, _ = make_bags(20, (2, 6), random_state=0)
    seen, curves = engines.curve_step, BagGP(**SETTINGS).fit(bags, y)
    lost = 7 * (int((y == 1).sum()) + int(bags.sizes[y == 0].sum()))

    def astray(chunk, pooled, look):
        sums, found = seen(chunk, pooled, look)
        evidence = found.chunk.evidence
        return sums, found._replace(chunk=found.chunk._replace(evidence=evidence._replace(logs=evidence.logs - 7.0)))

    monkeypatch.setattr(engines, "curve_step", astray)
    with pytest.warns(ConvergenceWarning, match=rf"log evidence is {lost} nats lower.*the answer is that of lines"):
        lines = BagGP(**SETTINGS).fit(bags, y)
    assert lines.converged_
    assert len(lines.trace_) < len(curves.trace_)
    assert float(lines.log_evidence_) == pytest.approx(float(curves.log_evidence_), abs=3.0)
