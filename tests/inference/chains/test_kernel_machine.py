"""The sampler of the kernel machine: its conditionals, the whole of it by Geweke's test, going on, silent bags."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import invgamma, kstest, norm
from tests.inference.chains.gibbs_problems import chunks_of
from tests.problems import segments_of

from bagwise import BagDataWarning, Bags, fraction
from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.evidence.statements import log_potentials
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.inference.chains import kernel_machine
from bagwise.inference.chains.birth_death import Dictionary, KernelSelection
from bagwise.inference.chains.gibbs import Sweep, block_step, plan_of
from bagwise.inference.chains.kernel_machine import LARGEST_DELTA2, KernelMachine, Prior, draw_weights, with_jitter
from bagwise.inference.chains.mixing import ess_mean
from bagwise.inference.chains.random_walk import Walk, random_walk_step, tables_of
from bagwise.inference.chunks import Chunk, InMemory

SIZES = np.array([4, 3, 2])
BATCHES = 25
PRIOR = Prior(a=1.5, b=2.0, mu=3.0, nu=2.0, jitter=1e-4)


def columns(seed=0, size=4):
    """Ψ (9, M): instances against centres."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(SIZES.sum(), 2))
    return np.exp(-0.5 * ((X[:, None] - X[:size]) ** 2).sum(-1))


def evidence_of(statement, sizes=SIZES, known=None):
    bags = Bags(np.zeros((sizes.sum(), 1)), np.repeat(np.arange(len(sizes)), sizes), known=known)
    return read_counts(statement, bags, bags, CountReading("fraction", 1.0)).evidence


def machine_of(psi, evidence, sizes=SIZES, cuts=(), kind=KernelMachine, **settings):
    chunks = chunks_of(psi, np.zeros(len(psi)), sizes, evidence, cuts)
    settings = {"prior": PRIOR, "n_chains": 2, "n_moves": 8} | settings
    return kind(chunks, torch.tensor(evidence.observed()), n_rows=len(psi), **settings)


# ---------------------------------------------------------------- conditionals


def test_weights_are_drawn_from_their_conditional():
    psi, rng = columns(), np.random.default_rng(0)
    gram, pull, delta2 = psi.T @ psi, psi.T @ rng.normal(size=len(psi)), 3.0
    prior = kernel_machine.with_jitter(gram, 1e-3)
    selection = KernelSelection(Dictionary(gram, prior, 1.0, 1.0))
    selection.activate(np.array([True, False, True, True]))
    selection.refresh(delta2, pull)
    drawn = [draw_weights(selection, delta2, rng) for _ in range(20_000)]
    beta = np.array([draw[0] for draw in drawn])
    g = [0, 2, 3]
    A = gram[np.ix_(g, g)] + prior[np.ix_(g, g)] / delta2
    np.testing.assert_allclose(drawn[0][1], np.linalg.solve(A, pull[g]), atol=1e-10)
    scale = np.sqrt(np.diag(np.linalg.inv(A)))
    np.testing.assert_allclose(beta.mean(0) / scale, drawn[0][1] / scale, atol=0.03)
    np.testing.assert_allclose(np.cov((beta / scale).T), np.linalg.inv(A) / np.outer(scale, scale), atol=0.04)
    assert drawn[5][2] == pytest.approx(beta[5] @ prior[np.ix_(g, g)] @ beta[5])


def test_the_scale_has_one_degree_of_freedom_for_every_weight():
    machine = machine_of(columns(), evidence_of(fraction([0.4, 0.6, 0.5])))
    rng = np.random.default_rng(0)
    drawn = [machine._draw_delta2(3, 4.0, rng) for _ in range(4000)]
    assert kstest(drawn, invgamma((PRIOR.mu + 3) / 2, scale=(PRIOR.nu + 4.0) / 2).cdf).pvalue > 1e-3
    assert kstest(drawn, invgamma((PRIOR.mu + 4) / 2, scale=(PRIOR.nu + 4.0) / 2).cdf).pvalue < 1e-9


def test_jitter_is_relative_to_the_mean_diagonal():
    gram = np.array([[4.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(with_jitter(gram, 0.1), gram + 0.3 * np.eye(2))
    np.testing.assert_allclose(with_jitter(np.zeros((2, 2)), 0.1), 0.1 * np.eye(2))


def test_the_prior_of_the_scale_ends_where_double_precision_does():
    machine = machine_of(columns(), evidence_of(fraction([0.4, 0.6, 0.5])), prior=PRIOR._replace(mu=0.01))
    drawn = [machine._draw_delta2(0, 0.0, np.random.default_rng(seed)) for seed in range(300)]
    assert 1e4 < max(drawn) <= LARGEST_DELTA2


@pytest.mark.parametrize("step", [block_step, random_walk_step])
def test_z_follows_the_evidence_by_either_update(step):
    """Fixed f: how often each number of positives, against the Poisson-binomial law times the potential."""
    sizes, rng = np.array([4, 2, 3]), np.random.default_rng(4)
    f = rng.normal(size=9)
    known = np.full(9, np.nan)
    known[1] = 1.0
    statement = fraction([0.6, 0.0, np.nan], [4.0, 1.0, 1.0])
    evidence = evidence_of(statement, sizes, known)
    design = Design(torch.tensor(f)[:, None], torch.zeros(9), segments_of(sizes))
    chunk = Chunk(design, ProbitCounts(evidence).chunk(slice(0, 3), torch.float64, torch.device("cpu")))
    chains = 200
    remembered = plan_of(chunk.evidence, design.segments, chains)
    weights = torch.ones(1, chains, dtype=torch.float64)
    counts, square = np.zeros(5), []
    for turn in range(420):
        uniforms = torch.from_numpy(rng.random((2, 9, chains)))
        sums, remembered = step(chunk, remembered, Sweep(weights, *uniforms))
        square.append(sums["square"].mean())
        if step is random_walk_step and turn >= 20:
            z = remembered.z
            assert bool((z[1] > 0).all())
            assert bool((z[4:6] < 0).all())
            assert bool((z[6:] == 0).all())
            counts += np.bincount((z[:4] > 0).sum(0), minlength=5)
    p = norm.cdf(f[:4])
    p[1] = 1.0
    law = np.array([1.0])
    for chance in p:
        law = np.convolve(law, [1.0 - chance, chance])
    law = law * np.exp(log_potentials(statement[0], sizes[:1]))
    if step is random_walk_step:
        np.testing.assert_allclose(counts / counts.sum(), law / law.sum(), atol=0.02)
    exact = 0.0
    for _ in range(300):
        sums, _ = block_step(
            chunk,
            plan_of(chunk.evidence, design.segments, chains),
            Sweep(weights, *torch.from_numpy(rng.random((2, 9, chains)))),
        )
        exact += float(sums["square"].mean()) / 300
    assert float(torch.stack(square[20:]).mean()) == pytest.approx(exact, rel=0.02)


def test_the_random_walk_takes_plain_labels_too():
    evidence = CountEvidence(np.array([[1.0], [0.0], [np.nan]]), SIZES)
    machine = machine_of(columns(), evidence, z_update="random-walk", n_chains=3)
    for _ in range(50):
        machine.sweep()
        z = machine._chunks.remembered[0].z
        assert bool((z[:4] > 0).any(0).all())
        assert bool((z[4:7] < 0).all())
        assert bool((z[7:] == 0).all())


# ---------------------------------------------------------------- the whole sampler, by Geweke's joint test


class Geweke:
    """Quantities of (γ, β, δ², m) when drawn from the joint law at once, and when parameters and data take turns.

    m of a bag is Beta(χ k/n + 1, χ (1 − k/n) + 1); the last bag is silent. Given the parameters, m is drawn with z
    integrated out; given m, the parameters move by one sweep. If every step of the sweep leaves its target alone, both
    ways have the same expectations.
    """

    def __init__(self, kind=KernelMachine, seed=0, **settings):
        self.rng = np.random.default_rng(seed)
        self.psi, self.trust = columns(seed), np.array([20.0, 5.0, 1.0])
        self.kind, self.settings = kind, {"n_chains": 1, "n_moves": 6} | settings
        gram = self.psi.T @ self.psi
        self.prior = kernel_machine.with_jitter(gram, PRIOR.jitter)

    def parameters(self):
        size = len(self.prior)
        k = int(self.rng.binomial(size, self.rng.beta(PRIOR.a, PRIOR.b)))
        g = np.sort(self.rng.permutation(size)[:k])
        delta2 = PRIOR.nu / 2 / self.rng.gamma(PRIOR.mu / 2)
        beta = np.zeros(size)
        if k:
            lower = np.linalg.cholesky(self.prior[np.ix_(g, g)])
            beta[g] = np.sqrt(delta2) * np.linalg.solve(lower.T, self.rng.normal(size=k))
        return beta, delta2

    def data(self, beta):
        return self.data_of(self.psi @ beta + self.rng.normal(size=len(self.psi)) > 0)

    def data_of(self, y):
        share = np.add.reduceat(y, np.cumsum(SIZES) - SIZES) / SIZES
        m = self.rng.beta(self.trust * share + 1, self.trust * (1 - share) + 1)
        return np.where(np.arange(3) < 2, m, np.nan)

    def said(self, m):
        table = log_potentials(fraction(m, self.trust), SIZES)
        return CountEvidence(np.full((3, 1), np.nan), SIZES, (table,), (np.array([True, True, False]),))

    def quantities(self, beta, delta2, m):
        k, log_delta2, p = np.sum(beta != 0), np.log(delta2), ndtr(self.psi @ beta)
        return [k, log_delta2, p.mean(), p.std(), abs(p - 0.5).mean(), m[0], k * log_delta2, m[0] * p[:4].mean(), m[1]]

    def at_once(self, n):
        rows = []
        for _ in range(n):
            beta, delta2 = self.parameters()
            rows.append(self.quantities(beta, delta2, self.data(beta)))
        return np.array(rows)

    def in_turns(self, n):
        beta, delta2 = self.parameters()
        m, rows = self.data(beta), []
        machine = machine_of(self.psi, self.said(m), kind=self.kind, **self.settings)
        machine.resume(torch.tensor(np.append(beta, delta2)[:, None]), 0)
        for _ in range(n):
            chunk = machine._chunks.chunks[0]
            evidence = ProbitCounts(self.said(m)).chunk(slice(0, 3), torch.float64, torch.device("cpu"))
            chunk = chunk._replace(evidence=evidence)
            machine._chunks = InMemory([chunk], [self.told(machine._chunks.remembered[0], chunk)])
            machine.sweep()
            beta, delta2 = machine.weights[:, 0].numpy(), float(machine.delta2[0])
            m = self.new_data(machine, beta)
            rows.append(self.quantities(beta, delta2, m))
        return np.array(rows)

    def told(self, remembered, chunk):
        return remembered

    def new_data(self, machine, beta):
        return self.data(beta)

    def scores(self, n_once, n_turns):
        once, turns = self.at_once(n_once), self.in_turns(n_turns)
        # The larger of two estimates: slow excursions of a chain escape the one or the other.
        by_correlation = turns.var(0) / ess_mean(np.ascontiguousarray(turns.T)[:, None, :])
        by_batches = turns.reshape(BATCHES, -1, turns.shape[1]).mean(1).var(0, ddof=1) / BATCHES
        error = np.sqrt(once.var(0) / len(once) + np.maximum(by_correlation, by_batches))
        return (once.mean(0) - turns.mean(0)) / error


class GewekeWalk(Geweke):
    """The same for the random walk: it remembers z, so m is drawn given z, and only its tables change."""

    def told(self, remembered, chunk):
        table, known = tables_of(chunk.evidence, chunk.design.segments)
        return replace(remembered, table=table, known=known) if isinstance(remembered, Walk) else remembered

    def new_data(self, machine, beta):
        return self.data_of(machine._chunks.remembered[0].z[:, 0].numpy() > 0)


class Printed(KernelMachine):
    """With the shape of the conditional of δ² as it is printed."""

    def _delta2_shape(self, count):
        return super()._delta2_shape(count + 1)


def test_the_whole_sampler_is_right_and_the_printed_shape_is_not():
    assert np.abs(Geweke().scores(15_000, 500)).max() < 4
    assert np.abs(Geweke(Printed).scores(15_000, 1000)).max() > 6


def test_the_printed_random_walk_is_right():
    assert np.abs(GewekeWalk(z_update="random-walk").scores(15_000, 1000)).max() < 4


@pytest.mark.statistical
def test_the_printed_random_walk_at_length():
    assert np.abs(GewekeWalk(seed=2, z_update="random-walk").scores(60_000, 20_000)).max() < 4


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rescale", [True, False])
def test_the_whole_sampler_at_length(seed, rescale):
    assert np.abs(Geweke(seed=seed, rescale=rescale).scores(60_000, 10_000)).max() < 4
    wrong = np.abs(Geweke(Printed, seed=seed, rescale=rescale).scores(60_000, 10_000))
    assert wrong[1] > 10  # log δ²


# ---------------------------------------------------------------- chains


def run(machine, n):
    states = [machine.state.clone()]
    for _ in range(n):
        machine.sweep()
        states.append(machine.state.clone())
    return torch.stack(states)


def test_a_chain_goes_on_as_if_it_had_never_stopped():
    evidence = evidence_of(fraction([0.4, 0.6, 0.0], 50.0))
    whole = run(machine_of(columns(), evidence, seed=3), 12)
    again = machine_of(columns(), evidence, seed=3)
    again.resume(whole[5], 5)
    torch.testing.assert_close(run(again, 7), whole[5:], rtol=1e-9, atol=1e-12)
    assert not torch.allclose(run(machine_of(columns(), evidence, seed=4), 2), whole[:3])
    with pytest.raises(NumericalError, match="cannot go on"):
        again.resume(whole[5] * torch.nan, 5)


def test_how_bags_are_cut_does_not_matter():
    evidence = evidence_of(fraction([0.4, 0.6, 0.0], 50.0))
    whole = run(machine_of(columns(), evidence, seed=3), 6)
    cut = run(machine_of(columns(), evidence, cuts=(1, 2), seed=3), 6)
    torch.testing.assert_close(cut, whole, rtol=1e-8, atol=1e-9)


def test_chains_start_apart_and_the_expectation_is_zero_without_evidence():
    with pytest.warns(BagDataWarning, match="nothing is known"):
        nothing = evidence_of(fraction([0.4, 0.6, 0.5], 0.0))
    machine = machine_of(columns(), nothing, n_chains=4)
    assert len(torch.unique(machine.state[-1])) == 4
    for _ in range(20):
        machine.sweep()
        assert not machine.means.any()
        assert machine.log_likelihood.tolist() == [0.0] * 4
    assert machine.weights.any()


def test_label_columns_with_other_bags_missing_have_gram_matrices_of_their_own():
    labels = np.array([[1.0, np.nan], [0.0, 1.0], [np.nan, 0.0]])
    psi = columns()
    machine = machine_of(psi, CountEvidence(labels, SIZES))
    of_first, of_second = machine.selections[0].dictionary, machine.selections[2].dictionary
    np.testing.assert_allclose(of_first.likelihood, psi[:7].T @ psi[:7])
    np.testing.assert_allclose(of_second.likelihood, psi[4:].T @ psi[4:])
    assert of_first.prior is of_second.prior
    assert np.isfinite(machine.sweep().objective)


def test_watched_quantities_are_those_of_what_the_sweep_saw():
    machine = machine_of(columns(), evidence_of(fraction([0.4, 0.6, 0.0], 50.0)))
    before = machine.state.clone()
    machine.sweep()
    watched = machine.watched()
    torch.testing.assert_close(machine.seen, before[:-1])
    assert watched[1].tolist() == (before[:-1] != 0).sum(0).tolist()
    torch.testing.assert_close(watched[2], before[-1].log())
    assert 0.0 <= machine.accepted <= 1.0
