"""Sparse, exact and dense answers to candidate sets are the same (theory section 7)."""

import itertools

import numpy as np
import pytest
import torch
from tests.equivalence.candidate_problems import EPS, dense_nll, dense_parts, problem, rbf, sparse_chunks

from bagwise import MIPLGP, Bags
from bagwise.bag_models.dirichlet import augmented, consistent_alpha, initial_alpha, targets_of
from bagwise.inference.candidates.conjugate_gradients import LowRank, solve
from bagwise.inference.candidates.kernel_matrix import KernelMatrix, pivoted_cholesky
from bagwise.inference.candidates.sparse import fit_targets
from bagwise.numerics.segments import Segments


@pytest.mark.parametrize("approximation", ["vfe", "fitc"])
def test_with_every_instance_as_inducing_input_the_sparse_evidence_is_the_dense_one(approximation):
    bags, table = problem()
    _, chunks, model = sparse_chunks(bags, table, rbf(), approximation=approximation)
    expected = -dense_nll(*dense_parts(bags, table, rbf()))
    assert fit_targets(chunks, model).log_evidence == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("rank", [1, 8, 30])
@pytest.mark.parametrize("kept", [None, 0])
def test_conjugate_gradients_are_direct_solves(rank, kept):
    bags, table = problem(25, seed=1)
    K, value, noise = dense_parts(bags, table, rbf(), bias=1.5)
    matrix = KernelMatrix(rbf(), torch.from_numpy(np.array(bags.X)), 1.5, kept)
    assert matrix.kept is (kept is None)
    phi, _ = pivoted_cholesky(matrix, rank)
    right = torch.stack([value, torch.randn(value.shape, dtype=value.dtype)], dim=2)
    found = solve(matrix.product, LowRank(phi, noise), right, tol=1e-10)
    for c in range(value.shape[1]):
        direct = torch.linalg.solve(K + torch.diag(noise[:, c]), right[:, c])
        torch.testing.assert_close(found.x[:, c], direct, rtol=0, atol=1e-6)


def test_a_better_preconditioner_needs_fewer_iterations():
    bags, table = problem(60, seed=2)
    _, value, noise = dense_parts(bags, table, rbf())
    matrix = KernelMatrix(rbf(), torch.from_numpy(np.array(bags.X)), 0.0)
    counts = [
        solve(matrix.product, LowRank(pivoted_cholesky(matrix, rank)[0], noise), value[:, :, None], tol=1e-8).iterations
        for rank in (1, 10, 40)
    ]
    assert counts[0] > counts[1] > counts[2]


def test_gradient_with_all_probes_is_that_of_the_dense_evidence():
    """(7.8): with the n unit vectors as probes the trace is exact."""
    bags, table = problem(6)
    kernel = rbf()
    matrix = KernelMatrix(kernel, torch.from_numpy(np.array(bags.X)), 0.0)
    _, value, noise = dense_parts(bags, table, kernel)
    n = len(value)
    for c in range(value.shape[1]):
        inverse = torch.linalg.inv(matrix._matrix + torch.diag(noise[:, c]))
        w = inverse @ value[:, [c]]
        matrix.pull_back(0.5 * torch.cat([inverse, -w], 1), torch.cat([torch.eye(n, dtype=w.dtype), w], 1))
    found = [parameter.grad.clone() for parameter in kernel.parameters()]
    other = rbf()
    dense_nll(other(torch.from_numpy(np.array(bags.X))).to_dense(), value, noise).backward()
    for mine, parameter in zip(found, other.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-8, atol=1e-10)


def test_exact_and_sparse_with_every_instance_answer_alike():
    bags, table = problem(20, seed=3)
    settings = {"kernel": rbf(), "learn": False, "standardize": False, "n_rounds": 8, "tol": 0.0, "random_state": 0}
    exact = MIPLGP(solver="exact", variance_steps=None, **settings).fit(bags, table)
    sparse = MIPLGP(solver="sparse", n_inducing=None, jitter=1e-12, **settings).fit(bags, table)
    new = problem(6, seed=9)[0]
    for mine, other in zip(exact.predict_latent(new), sparse.predict_latent(new), strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-2)  # rounds are solved to ROUND_TOLERANCE
    np.testing.assert_allclose(exact.predict_instance_proba(new), sparse.predict_instance_proba(new), atol=5e-3)


def test_bags_of_one_with_one_candidate_are_dirichlet_classification():
    """Milios et al.: regression on the transformed one-hot labels, written out with dense matrices."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    model = MIPLGP(
        "uniform", False, kernel=rbf(), learn=False, standardize=False, solver="exact", bias=0.0, variance_steps=None
    ).fit(X, y)
    new = rng.normal(size=(7, 2))
    alpha = np.eye(3)[y] + EPS
    noise = np.log1p(1 / alpha)
    target = np.log(alpha) - noise / 2
    with torch.no_grad():
        full = rbf()(torch.from_numpy(np.vstack([X, new]))).to_dense().numpy()
    K, cross, prior = full[:30, :30], full[30:, :30], np.diag(full)[30:]
    mean, variance = model.predict_latent(new)
    for c in range(3):
        A = K + np.diag(noise[:, c])
        np.testing.assert_allclose(mean[:, c], cross @ np.linalg.solve(A, target[:, c]), atol=1e-6)
        expected = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T))
        np.testing.assert_allclose(variance[:, c], expected, atol=1e-6)


def test_bag_consistent_responsibilities_are_those_of_enumeration():
    """(7.10) against all 4⁴ labellings of a bag of four with three classes and none of them."""
    torch.manual_seed(0)
    latent = 2.0 * torch.randn(4, 4, dtype=torch.float64)
    candidates = torch.tensor([[True, False, True, True]]).expand(4, 4)
    p = torch.softmax(latent, dim=1)
    total, counts = 0.0, torch.zeros(4, 4, dtype=torch.float64)
    for labels in itertools.product(range(4), repeat=4):
        present = set(labels) - {3}
        if len(present) != 1 or not candidates[0, present.pop()]:
            continue
        weight = torch.prod(p[torch.arange(4), list(labels)])
        total += weight
        counts[torch.arange(4), list(labels)] += weight
    found = consistent_alpha(latent, candidates, Segments(torch.tensor([0, 4])), 0.0)
    torch.testing.assert_close(found, counts / total, rtol=0, atol=1e-14)


def test_targets_match_mean_and_variance_of_the_gamma():
    alpha = torch.tensor([1e-4, 0.3, 1.0, 5.0], dtype=torch.float64)
    value, noise = targets_of(alpha)
    torch.testing.assert_close(torch.exp(value + noise / 2), alpha)
    torch.testing.assert_close(torch.expm1(noise) * torch.exp(2 * value + noise), alpha)
    start = initial_alpha(torch.tensor([[True, True, False]]), EPS)
    torch.testing.assert_close(start, torch.tensor([[0.5 + EPS, 0.5 + EPS, EPS]], dtype=torch.float64))


@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_disambiguation_moves_targets_noise_and_predictions(solver):
    """Fails for a model that ignores features or keeps the initial targets."""
    rng = np.random.default_rng(5)
    y = np.arange(60) % 3
    X = rng.normal(size=(180, 2)) * 0.3
    X[::3] += 4.0 * np.array([[1, 0], [-0.5, 0.8], [-0.5, -0.8]])[y]
    bags, table = Bags(X, np.repeat(np.arange(60), 3)), np.eye(3, dtype=int)[y]
    table[np.arange(60), (y + 1 + rng.integers(2, size=60)) % 3] = 1
    settings = {"solver": solver, "learn": False, "n_inducing": 60, "random_state": 0, "lengthscale": 0.5}
    fixed = MIPLGP("uniform", **settings).fit(bags, table)
    moved = MIPLGP("dirichlet", **settings).fit(bags, table)
    truth = np.where(np.arange(180) % 3 == 0, y[bags.index], 3)
    hits = [model.predict_instance_proba(bags)[np.arange(180), truth][::3].mean() for model in (fixed, moved)]
    assert hits[1] > hits[0] + 0.1
    assert np.abs(moved.predict_latent(bags)[0] - fixed.predict_latent(bags)[0]).max() > 0.5
    if solver == "exact":
        assert (moved.posterior_.noise - fixed.posterior_.noise).abs().max() > 0.1
    shuffled = Bags(rng.permutation(X), bags.index)
    assert (
        MIPLGP("dirichlet", **settings)
        .fit(shuffled, table)
        .predict_instance_proba(bags)[np.arange(180), truth][::3]
        .mean()
        < hits[1] - 0.1
    )


def test_prior_mean_rule_renews_by_the_constants_in_both_solvers():
    """One dense round: the mean of a constant of prior variance b² is b² 1ᵀ(K + Σ)⁻¹ y, the same for all instances."""
    bags, table = problem()
    K, value, noise = dense_parts(bags, table, rbf(), bias=2.0)
    constants = torch.stack(
        [4.0 * torch.linalg.solve(K + torch.diag(noise[:, c]), value[:, c]).sum() for c in range(value.shape[1])]
    )
    candidates = torch.from_numpy(augmented(table.astype(bool), True))[torch.from_numpy(np.array(bags.index))]
    alpha = torch.softmax(constants.masked_fill(~candidates, -torch.inf), dim=1) + EPS
    noise = targets_of(alpha).noise
    value = targets_of(alpha).value
    expected = torch.stack(
        [K @ torch.linalg.solve(K + torch.diag(noise[:, c]), value[:, c]) for c in range(value.shape[1])], dim=1
    )
    settings = {"kernel": rbf(), "learn": False, "bias": 2.0, "standardize": False, "n_rounds": 1, "tol": 0.0}
    for solver in ("exact", "sparse"):
        model = MIPLGP(
            "prior-mean", solver=solver, at_least_one=False, n_inducing=None, random_state=0, **settings
        ).fit(bags, table)
        np.testing.assert_allclose(model.predict_latent(bags)[0], expected, atol=2e-3)
