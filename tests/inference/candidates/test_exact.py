"""The exact solver: its gradient, its variances, its memory, its kernel steps (theory (7.7), (7.8))."""

import copy
import functools
import itertools

import numpy as np
import pytest
import torch
from tests.inference.candidates.exact_problems import engine_of

from bagwise import MIPLGP, Bags, ConvergenceWarning
from bagwise.bag_models.dirichlet import targets_of
from bagwise.gp import kernels
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.candidates import exact as exact_dirichlet
from bagwise.inference.candidates.conjugate_gradients import solve


def dense_gradient(engine, x, bias):
    """d NLL / d log parameters by autograd through dense matrices."""
    kernel = copy.deepcopy(engine._matrix.kernel)
    value, noise = targets_of(engine.alpha())
    K = kernels.gram(kernel, x) + bias**2
    total = torch.zeros((), dtype=torch.float64)
    for c in range(value.shape[1]):
        law = torch.distributions.MultivariateNormal(torch.zeros(len(x)).double(), K + torch.diag(noise[:, c]))
        total = total - law.log_prob(value[:, c])
    total.backward()
    return KernelParameters(kernel, 2).gradient()


def captured_gradient(engine, monkeypatch):
    found = []
    engine.learn(10, 1)
    monkeypatch.setattr(engine._ascent, "step", lambda: found.append(engine._ascent._parameters.gradient()) or 0.0)
    engine._made = 3
    engine.round()
    return found[0]


def test_with_an_orthogonal_set_of_probes_the_gradient_is_exact(monkeypatch):
    """Probes √n e_i: their average is that of (7.8) without any noise."""
    monkeypatch.setattr(exact_dirichlet, "ROUND_TOLERANCE", 1e-10)
    monkeypatch.setattr(exact_dirichlet, "PROBE_TOLERANCE", 1e-10)
    engine, x = engine_of()
    n, C = engine.alpha().shape
    probes = (n**0.5 * torch.eye(n, dtype=torch.float64))[:, None, :].expand(n, C, n).contiguous()
    monkeypatch.setattr(engine, "_drawn_probes", lambda: probes)
    expected = dense_gradient(engine, x, 2.0)
    np.testing.assert_allclose(captured_gradient(engine, monkeypatch), expected, rtol=1e-6)


def test_random_probes_estimate_it_without_bias(monkeypatch):
    engine, x = engine_of(n_probes=400)
    expected = dense_gradient(engine, x, 2.0)
    np.testing.assert_allclose(captured_gradient(engine, monkeypatch), expected, rtol=0.05, atol=1.0)


def test_probes_are_signs_from_the_seed():
    first, again, other = (engine_of(seed=seed)[0]._drawn_probes() for seed in (0, 0, 1))
    assert set(first.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(first, again)
    assert not torch.equal(first[: len(other)], other[: len(first)])


def test_row_blocks_change_nothing():
    whole, blocks = (engine_of(kept_bytes=kept)[0] for kept in (None, 0))
    assert whole._matrix.kept
    assert not blocks._matrix.kept
    for engine in (whole, blocks):
        engine.learn(5, 1)
        for _ in range(5):
            engine.round()
    torch.testing.assert_close(blocks.alpha(), whole.alpha(), rtol=0, atol=1e-6)
    for name, value in blocks._matrix.kernel.named_parameters():
        torch.testing.assert_close(value, whole._matrix.kernel.get_parameter(name), rtol=1e-6, atol=1e-8)


def test_unfinished_conjugate_gradients_are_told(monkeypatch):
    monkeypatch.setitem(exact_dirichlet.FINAL_TOLERANCE, torch.float64, 0.0)
    monkeypatch.setattr(exact_dirichlet, "solve", functools.partial(solve, max_iter=3))
    engine, _ = engine_of()
    with pytest.warns(ConvergenceWarning, match="conjugate gradients stopped after 3 iterations"):
        engine.finish(torch.zeros(2).double(), torch.ones(2).double(), 1e-6)


def test_each_variance_step_lowers_the_variance_towards_the_exact_one():
    rng = np.random.default_rng(3)
    bags = Bags(rng.normal(size=(120, 3)), np.repeat(np.arange(40), 3))
    table = np.eye(3, dtype=int)[np.arange(40) % 3]
    model = MIPLGP(solver="exact", rank=5, learn=False, n_rounds=3, random_state=0).fit(bags, table)
    new = Bags(rng.normal(size=(20, 3)), np.repeat(np.arange(5), 4))
    found = []
    for steps in (1, 2, 3, 6, None):
        model.variance_steps_ = steps
        found.append(model.predict_latent(new)[1])
    for more, less in itertools.pairwise(found):
        assert (less <= more + 1e-9).all()
    assert (found[0] - found[-1]).max() > 1e-3
    K = kernels.gram(model.kernel_, model.posterior_.inputs).detach() + model.bias**2
    cross = kernels.cross(model.kernel_, model.posterior_.inputs, model.features_.standardised(new.X)).detach()
    for c in range(4):
        A = K + torch.diag(model.posterior_.noise[:, c])
        b = cross + model.bias**2
        exact = 1.0 + model.bias**2 - (b * torch.linalg.solve(A, b)).sum(0)
        np.testing.assert_allclose(found[-1][:, c], exact, atol=1e-6)
        np.testing.assert_allclose(model.predict_latent(new)[0][:, c], b.T @ model.posterior_.weights[:, c], atol=1e-8)
