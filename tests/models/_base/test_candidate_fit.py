"""Rounds of MIPLGP: when the kernel is learned, and when they end."""

import numpy as np
import pytest
import torch
from tests.models.candidate_problems import problem, quick

from bagwise.gp import kernel_files
from bagwise.inference.kernel_learning.ascent import KernelAscent


@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_the_kernel_is_learned_only_from_renewed_targets(solver):
    bags, table, _, _ = problem()
    lengthscales = {}
    for rule, rounds in (("dirichlet", 3), ("dirichlet", 8), ("uniform", 8)):
        model = quick(solver=solver, disambiguation=rule, n_rounds=rounds, tol=0.0).fit(bags, table)
        lengthscales[rule, rounds] = float(model.kernel_.base_kernel.lengthscale.detach())
    assert lengthscales["dirichlet", 3] == lengthscales["uniform", 8] == pytest.approx(np.sqrt(2))
    assert lengthscales["dirichlet", 8] != pytest.approx(np.sqrt(2), rel=1e-2)


@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_every_round_after_the_third_takes_its_steps(solver, monkeypatch):
    bags, table, _, _ = problem()
    moves, step = [], KernelAscent.step

    def watched(ascent):
        moves.append(step(ascent))
        return moves[-1]

    monkeypatch.setattr(KernelAscent, "step", watched)
    quick(solver=solver, n_steps=3, n_rounds=7, tol=0.0).fit(bags, table)
    assert len(moves) == 3 * (7 - 3)
    assert moves[-1] < 0.1 * moves[0]  # the rate has fallen to its end


def test_rounds_end_when_nothing_moves():
    bags, table, _, _ = problem()
    model = quick(learn=False, n_rounds=200, tol=1e-3).fit(bags, table)
    assert model.converged_
    assert model.n_iter_ < 200
    assert model.trace_.residuals[-1] <= 1e-3
    assert not quick(learn=False, n_rounds=2, tol=0.0).fit(bags, table).converged_


@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_uniform_learns_its_kernel_only_from_the_first_round_on(solver):
    bags, table, _, _ = problem(12)
    settings = {"solver": solver, "disambiguation": "uniform", "n_rounds": 2, "n_inducing": 20}
    usual, asked = (quick(**settings, **changes).fit(bags, table) for changes in ({}, {"learn_start": 0}))
    kept, learned = (kernel_files.parameters(one.kernel_) for one in (usual, asked))
    assert not all(torch.equal(kept[name], learned[name]) for name in kept)
    again = kernel_files.parameters(quick(**(settings | {"n_rounds": 6})).fit(bags, table).kernel_)
    assert all(torch.equal(kept[name], again[name]) for name in kept)
