"""The exact solver: its gradient, its variances, its memory, its kernel steps (theory (7.7), (7.8))."""

import copy
import functools
import itertools

import gpytorch
import numpy as np
import pytest
import torch

from bagwise import MIPLGP, Bags, ConvergenceWarning
from bagwise.bag_models.dirichlet import CandidateEvidence, Disambiguation, augmented, targets_of
from bagwise.exceptions import NumericalError
from bagwise.gp import kernels
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.candidates import exact as exact_dirichlet
from bagwise.inference.candidates.conjugate_gradients import LowRank, solve
from bagwise.inference.candidates.exact import ExactRounds, ExactSettings
from bagwise.inference.candidates.kernel_matrix import KernelMatrix, pivoted_cholesky
from bagwise.inference.kernel_learning.ascent import KernelAscent
from bagwise.numerics.segments import Segments


def scaled_matern(variance=6.0, lengthscale=1.1):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    return kernel


def engine_of(n_bags=12, bias=2.0, n_probes=2, seed=0, dtype=torch.float64, kept_bytes=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_bags)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(n_bags), sizes))
    table = np.eye(3, dtype=bool)[np.arange(n_bags) % 3] | np.eye(3, dtype=bool)[(np.arange(n_bags) + 1) % 3]
    chunk = CandidateEvidence(augmented(table, True), bags.offsets).chunk(slice(0, n_bags), dtype, torch.device("cpu"))
    settings = ExactSettings(Disambiguation("dirichlet", 1e-4), 15, n_probes, seed, kept_bytes)
    x = torch.from_numpy(np.array(bags.X)).to(dtype)
    segments = Segments(torch.from_numpy(bags.offsets.copy()))
    return ExactRounds(scaled_matern().to(dtype), x, bias, chunk, segments, settings), x


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


def test_pivots_make_the_whitened_features_of_their_instances():
    """ΦΦᵀ of the pivoted Cholesky factor is k(X, Z) k(Z, Z)⁻¹ k(Z, X) with the pivots as Z."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 2)))
    matrix = KernelMatrix(scaled_matern(), x, 0.0)
    phi, pivots = pivoted_cholesky(matrix, 9)
    full = kernels.gram(scaled_matern(), x).detach()
    low = full[:, pivots] @ torch.linalg.solve(full[pivots][:, pivots], full[pivots])
    torch.testing.assert_close(phi @ phi.T, low, rtol=0, atol=1e-8)


def test_repeated_instances_run_out_of_pivots_quietly():
    x = torch.zeros(6, 2, dtype=torch.float64)
    phi, _ = pivoted_cholesky(KernelMatrix(scaled_matern(), x, 0.0), 4)
    np.testing.assert_allclose(phi @ phi.T, 6.0 * np.ones((6, 6)))
    assert (phi[:, 1:] == 0).all()


def test_the_preconditioner_is_the_inverse_of_its_matrix():
    torch.manual_seed(0)
    phi, noise = 5.0 * torch.randn(30, 4).double(), 0.7 + torch.rand(30, 3).double()
    b = torch.randn(30, 3, 2).double()
    found = LowRank(phi, noise).solve(b)
    for c in range(3):
        back = phi @ (phi.T @ found[:, c]) + noise[:, c, None] * found[:, c]
        torch.testing.assert_close(back, b[:, c], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kept", [None, 0])
def test_a_single_precision_matrix_is_solved_as_a_double_one(kept):
    """With vectors in single precision too it takes twice the iterations here, and more instances never arrive."""
    torch.manual_seed(0)
    x, b = torch.randn(1000, 50).double(), -10.0 * torch.rand(1000, 2, 1).double()
    noise = 0.7 + 8.0 * torch.rand(1000, 2).double()
    kernel, bias = scaled_matern(1000.0, 7.0), 5.0
    dense = kernels.gram(kernel, x).detach() + bias**2
    counts = []
    for dtype in (torch.float64, torch.float32):
        matrix = KernelMatrix(copy.deepcopy(kernel).to(dtype), x.to(dtype), bias, kept)
        phi = torch.cat([pivoted_cholesky(matrix, 40)[0].double(), torch.full((1000, 1), bias).double()], 1)
        solution = solve(matrix.product, LowRank(phi, noise), b, tol=1e-4)
        left = torch.cat([b[:, c] - (dense + noise[:, c].diag()) @ solution.x[:, c] for c in range(2)], 1)
        assert (left.norm(dim=0) / b[:, :, 0].norm(dim=0)).max() < 2e-4
        counts.append(solution.iterations)
    assert counts[1] <= 1.3 * counts[0]


def test_a_solve_that_is_cut_short_says_how_far_it_came():
    engine, _ = engine_of()
    b = torch.ones(*engine.alpha().shape, 1, dtype=torch.float64)
    noise = targets_of(engine.alpha()).noise
    solution = solve(engine._matrix.product, LowRank(engine._phi[:, :1], noise), b, tol=1e-12, max_iter=2)
    assert solution.iterations == 2
    assert solution.residual > 1e-12
    nothing = solve(engine._matrix.product, LowRank(engine._phi, noise), 0 * b, tol=1e-12)
    assert nothing.iterations == 0
    assert (nothing.x == 0).all()


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


def test_kernel_steps_go_downhill_and_stop():
    kernel = scaled_matern()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 2)))
    y = torch.distributions.MultivariateNormal(
        torch.zeros(60).double(), kernels.gram(scaled_matern(2.0, 0.6), x).detach() + 0.1 * torch.eye(60).double()
    ).sample()
    ascent, values = KernelAscent(kernel, 2, 40), []
    for _ in range(40):
        covariance = kernels.gram(kernel, x) + 0.1 * torch.eye(60).double()
        nll = -torch.distributions.MultivariateNormal(torch.zeros(60).double(), covariance).log_prob(y)
        nll.backward()
        values.append(float(nll.detach()))
        moved = ascent.step()
    assert values[-1] < values[0] - 1.0
    assert moved < 1e-2
    assert all(parameter.grad is None for parameter in kernel.parameters())


def test_a_gradient_that_is_not_finite_is_an_error():
    kernel = scaled_matern()
    ascent = KernelAscent(kernel, 2, 3)
    for parameter in kernel.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    with pytest.raises(NumericalError, match="gradient of the log evidence"):
        ascent.step()
