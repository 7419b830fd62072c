"""Sparse, exact and dense answers to candidate sets are the same (theory section 7)."""

import itertools

import gpytorch
import numpy as np
import pytest
import torch

from bagwise import MIPLGP, Bags
from bagwise.bag_models.dirichlet import (
    CandidateEvidence,
    Disambiguation,
    augmented,
    consistent_alpha,
    initial_alpha,
    targets_of,
)
from bagwise.gp.features import make_features
from bagwise.inference.candidates.conjugate_gradients import LowRank, solve
from bagwise.inference.candidates.kernel_matrix import KernelMatrix, pivoted_cholesky
from bagwise.inference.candidates.sparse import Regression, evidence_cotangents, fit_targets, start_step
from bagwise.inference.chunks import in_memory
from bagwise.numerics.segments import Segments

EPS = 1e-4


def rbf(variance=2.0, lengthscale=0.8):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    return kernel


def problem(n_bags=12, q=3, seed=0, size=(1, 5)):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*size, n_bags)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(n_bags), sizes))
    table = np.zeros((n_bags, q), dtype=int)
    for b, row in enumerate(table):
        row[rng.choice(q, 1 + b % 2, replace=False)] = 1
    table[np.arange(q), np.arange(q)] = 1
    return bags, table


def dense_parts(bags, table, kernel, bias=0.0):
    """K, targets and noise by the formulas of the theory, written out."""
    with torch.no_grad():
        K = kernel(torch.from_numpy(np.array(bags.X))).to_dense() + bias**2
    candidates = torch.from_numpy(augmented(table.astype(bool), True)).double()[torch.from_numpy(np.array(bags.index))]
    alpha = candidates / candidates.sum(1, keepdim=True) + EPS
    noise = torch.log(1 + 1 / alpha)
    return K, torch.log(alpha) - noise / 2, noise


def dense_nll(K, value, noise):
    """(7.7), with its constant."""
    total = torch.zeros((), dtype=torch.float64)
    for c in range(value.shape[1]):
        law = torch.distributions.MultivariateNormal(torch.zeros(len(K), dtype=K.dtype), K + torch.diag(noise[:, c]))
        total = total - law.log_prob(value[:, c])
    return total


def sparse_chunks(bags, table, kernel, n_inducing=None, approximation="fitc", jitter=1e-12):
    features = make_features(
        bags,
        kernel=kernel,
        lengthscale=None,
        bias=0.0,
        n_inducing=n_inducing,
        inducing="kmeans++",
        standardize=False,
        jitter=jitter,
        device=torch.device("cpu"),
        dtype=torch.float64,
        random=np.random.RandomState(0),
    )
    evidence = CandidateEvidence(augmented(table.astype(bool), True), bags.offsets)
    model = Regression(Disambiguation("uniform", EPS), approximation)
    chunks = in_memory(features, bags, evidence)
    chunks.sweep(start_step, model)
    return features, chunks, model


@pytest.mark.parametrize("approximation", ["vfe", "fitc"])
def test_with_every_instance_as_inducing_input_the_sparse_evidence_is_the_dense_one(approximation):
    bags, table = problem()
    _, chunks, model = sparse_chunks(bags, table, rbf(), approximation=approximation)
    expected = -dense_nll(*dense_parts(bags, table, rbf()))
    assert fit_targets(chunks, model).log_evidence == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("approximation", ["vfe", "fitc"])
def test_sparse_evidence_is_that_of_its_low_rank_law(approximation):
    bags, table = problem(20)
    features, chunks, model = sparse_chunks(bags, table, rbf(), n_inducing=7, approximation=approximation)
    phi, kappa = (torch.from_numpy(np.asarray(part)) for part in features.transform(bags))
    K, value, noise = dense_parts(bags, table, rbf())
    low = phi @ phi.T + (torch.diag(kappa) if approximation == "fitc" else 0.0)
    expected = -dense_nll(low, value, noise)
    if approximation == "vfe":
        expected = expected - 0.5 * (kappa[:, None] / noise).sum()
        assert expected < -dense_nll(K, value, noise)  # a bound on (7.7)
    assert fit_targets(chunks, model).log_evidence == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("approximation", ["vfe", "fitc"])
def test_cotangents_are_the_derivatives_of_the_evidence(approximation):
    bags, table = problem(8)
    _, chunks, model = sparse_chunks(bags, table, rbf(), n_inducing=5, approximation=approximation)
    posterior = fit_targets(chunks, model).posterior
    (chunk,), (alpha,) = chunks.chunks, chunks.remembered
    by_phi, by_kappa = evidence_cotangents(chunk, alpha, posterior, model)
    phi, kappa = chunk.design.phi, chunk.design.kappa
    for array, gradient, at in ((phi, by_phi, (2, 1)), (phi, by_phi, (0, 3)), (kappa, by_kappa, (1,))):
        values = []
        for step in (1e-5, -1e-5):
            array[at] += step
            values.append(-fit_targets(chunks, model).log_evidence)
            array[at] -= step
        assert float(gradient[at]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-6)


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
