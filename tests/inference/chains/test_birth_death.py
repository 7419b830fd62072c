"""Moves on the set of active kernels, against every subset of five."""

import itertools

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import multivariate_normal

from bagwise.exceptions import NumericalError
from bagwise.inference.chains.birth_death import Dictionary, KernelSelection

M, INFORMED = 5, 7
SUBSETS = [set(chosen) for k in range(M + 1) for chosen in itertools.combinations(range(M), k)]


class Problem:
    """Nine instances, of which ``informed`` are known something about, five centres and some z."""

    def __init__(self, informed=INFORMED, jitter=1e-3, delta2=2.5, a=1.0, b=1.0, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(9, 2))
        self.psi = np.exp(-0.5 * ((X[:, None] - X[:M]) ** 2).sum(-1))
        self.z = 1.5 * rng.normal(size=informed)
        self.seen = self.psi[:informed]
        gram = self.psi.T @ self.psi
        self.prior = gram + jitter * np.trace(gram) / M * np.eye(M)
        self.pull, self.delta2, self.a, self.b = self.seen.T @ self.z, delta2, a, b
        self.dictionary = Dictionary(self.seen.T @ self.seen, self.prior, a, b)

    def at(self, subset):
        selection = KernelSelection(self.dictionary)
        selection.activate(np.isin(np.arange(M), list(subset)))
        selection.refresh(self.delta2, self.pull)
        return selection

    def log_marginal(self, subset):
        """z ~ N(0, I + δ² Ψ_g P_gg⁻¹ Ψ_gᵀ), an N × N matrix, and the prior of γ."""
        g, k = sorted(subset), len(subset)
        inside = self.seen[:, g] @ np.linalg.inv(self.prior[np.ix_(g, g)]) @ self.seen[:, g].T if k else 0.0
        covariance = np.eye(len(self.z)) + self.delta2 * inside
        return multivariate_normal(np.zeros(len(self.z)), covariance).logpdf(self.z) + betaln(
            k + self.a, M - k + self.b
        )

    def log_marginal_of_the_paper(self, subset):
        """(8.1): everyone informed, no jitter."""
        g, k = sorted(subset), len(subset)
        psi, shrink = self.seen[:, g], self.delta2 / (1.0 + self.delta2)
        explained = self.z @ psi @ np.linalg.solve(psi.T @ psi, psi.T @ self.z) if k else 0.0
        return betaln(k + self.a, M - k + self.b) - 0.5 * k * np.log(1.0 + self.delta2) + 0.5 * shrink * explained


def price(selection, move):
    """What a move changes in the log marginal, without the prior of γ and the proposals: (leaves, enters)."""
    leaves, enters = move
    places = {int(column): place for place, column in enumerate(selection.order)}
    worth = 0.0
    if enters is not None:
        entrance = selection._enter(enters)
        worth = selection._worth(entrance if leaves is None else selection._without(places[leaves], entrance))
    return worth - (0.0 if leaves is None else selection._loss(places[leaves]))


def moves_from(subset):
    outside = set(range(M)) - subset
    births, deaths = [(None, j) for j in outside], [(i, None) for i in subset]
    return births + deaths + [(i, j) for i in subset for j in outside]


@pytest.mark.parametrize("informed", [INFORMED, 9], ids=["two instances silent", "everyone informed"])
def test_every_move_costs_what_the_large_matrix_says(informed):
    problem = Problem(informed)
    checked = 0
    for subset in SUBSETS:
        selection = problem.at(subset)
        for leaves, enters in moves_from(subset):
            after = (subset - {leaves}) | ({enters} - {None})
            prior = betaln(len(after) + 1, M - len(after) + 1) - betaln(len(subset) + 1, M - len(subset) + 1)
            expected = problem.log_marginal(after) - problem.log_marginal(subset) - prior
            assert price(selection, (leaves, enters)) == pytest.approx(expected, abs=1e-11)
            checked += 1
    assert checked == 320


def test_without_jitter_it_is_the_formula_of_the_paper():
    problem = Problem(informed=9, jitter=0.0, a=2.0, b=3.0)
    base = problem.log_marginal(set()) - problem.log_marginal_of_the_paper(set())
    for subset in SUBSETS:
        assert problem.log_marginal(subset) - problem.log_marginal_of_the_paper(subset) == pytest.approx(base, abs=1e-9)


@pytest.mark.parametrize(("a", "b", "delta2"), [(1.0, 1.0, 3.0), (1.3, 4.0, 40.0)])
def test_frequencies_of_all_subsets(a, b, delta2):
    problem = Problem(a=a, b=b, delta2=delta2)
    selection, rng = problem.at(set()), np.random.default_rng(1)
    number = {frozenset(subset): place for place, subset in enumerate(SUBSETS)}
    seen = np.zeros(len(SUBSETS))
    for _ in range(3000):
        selection.refresh(delta2, problem.pull)
        for uniforms in rng.random((20, 2, 4)):
            selection.move(uniforms)
            seen[number[frozenset(selection.active.tolist())]] += 1
    log_mass = np.array([problem.log_marginal(subset) for subset in SUBSETS])
    mass = np.exp(log_mass - log_mass.max())
    assert 0.5 * np.abs(seen / seen.sum() - mass / mass.sum()).sum() < 0.02


def test_updates_of_rank_one_are_the_inverses_of_what_they_stand_for():
    problem = Problem(jitter=1e-6, delta2=20.0)
    selection, rng = problem.at({0, 2}), np.random.default_rng(2)
    for _ in range(200):
        selection.move(rng.random((40, 4)))
        k, fit = selection.count, selection.fit[: selection.count].copy()
        kept = [inverse[:k, :k].copy() for inverse in selection._inverses]
        likelihood, prior = selection.grams()
        A = likelihood + prior / problem.delta2
        for inverse, block in zip(kept, (A, prior), strict=True):
            np.testing.assert_allclose(inverse @ block, np.eye(k), atol=1e-7)
        np.testing.assert_allclose(fit, np.linalg.solve(A, selection.active_pull))
        assert selection.explained() == pytest.approx(selection.active_pull @ fit)


def test_the_arrays_grow_with_the_set():
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(60, 40))
    gram = psi.T @ psi
    selection = KernelSelection(Dictionary(gram, gram + 1e-3 * np.eye(40), 30.0, 1.0))
    selection.refresh(100.0, psi.T @ (psi @ rng.normal(size=40) * 3.0))
    selection.move(rng.random((2000, 4)))
    assert selection.count > 20
    assert sorted(selection.order) == list(range(40))
    k, (likelihood, prior) = selection.count, selection.grams()
    A = likelihood + prior / 100.0
    np.testing.assert_allclose(selection._inverses[0][:k, :k] @ A, np.eye(k), atol=1e-8)


def test_a_dictionary_of_one():
    gram = np.array([[2.0]])
    selection = KernelSelection(Dictionary(gram, gram, 1.0, 1.0))
    selection.refresh(1.0, np.array([0.5]))
    counts = [selection.move(np.random.default_rng(seed).random((1, 4))) or selection.count for seed in range(200)]
    assert set(counts) == {0, 1}


def test_what_cannot_be_told_apart_is_an_error():
    gram = np.ones((2, 2))
    selection = KernelSelection(Dictionary(gram, gram, 1.0, 1.0))
    selection.activate(np.array([True, True]))
    with pytest.raises(NumericalError, match="larger jitter"):
        selection.refresh(1.0, np.ones(2))
