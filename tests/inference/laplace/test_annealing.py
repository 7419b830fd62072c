"""Witness weights: the bags × bags form against the instances × instances one, annealing that settles, sparse rows."""

import gpytorch
import numpy as np
import pytest
import scipy.sparse
import torch
from tests.problems import features_of, random_bags, random_labels, segments_of

from bagwise import Bags
from bagwise.bag_models.soft_max import BagLosses, WitnessLoss, hard_witness, soft_witness, uniform_weights
from bagwise.inference.laplace.annealing import FIRST_SHARPNESS, MOST_STAGES, Annealing, Schedule, anneal, sharpness_at
from bagwise.inference.laplace.fit import fit_witness
from bagwise.inference.laplace.mode import ModeLimits, find_mode, log_evidence
from bagwise.inference.laplace.pooled_rows import ExactRows, InducedRows, SparseLinearRows, rows_of
from bagwise.numerics.links import LINKS


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    bags = random_bags(rng, n_bags=15)
    y = np.array([x[:, 0].max() > 0.8 for _, x in bags], dtype=float)
    assert 3 < y.sum() < 12
    return bags, torch.from_numpy(y)


def losses(labels, link="logistic"):
    return BagLosses(labels, LINKS[link])


def exact_features(bags, kernel="exponential", **changes):
    return features_of(bags, n_inducing=None, jitter=1e-13, kernel=kernel, lengthscale=0.8, **changes)


@pytest.mark.parametrize("link", LINKS)
def test_bags_by_bags_equals_instances_by_instances(problem, link):
    """(6.4)–(6.6) against Newton over all N latent values with K and P written out."""
    bags, labels = problem
    features = exact_features(bags)
    phi, _ = (torch.from_numpy(part) for part in features.transform(bags))
    K, segments = phi @ phi.T, segments_of(bags.sizes)
    weights = soft_witness(phi[:, 0], segments, 3.0)
    P = torch.zeros(len(bags), len(phi), dtype=torch.float64)
    P[segments.index, torch.arange(len(phi))] = weights
    # N × N: minimise Σ ℓ(P F) + ½ Fᵀ K⁻¹ F by Newton's method
    loss, F = losses(labels, link), torch.zeros(len(phi), dtype=torch.float64)
    for _ in range(60):
        W = P.T @ torch.diag(loss.bend(P @ F)) @ P
        right = W @ F - P.T @ loss.slope(P @ F)
        F = torch.linalg.solve(torch.eye(len(F), dtype=F.dtype) + K @ W, K @ right)
    W = P.T @ torch.diag(loss.bend(P @ F)) @ P
    determinant = torch.linalg.slogdet(torch.eye(len(F), dtype=F.dtype) + K @ W)[1]
    nll = loss.value(P @ F) + 0.5 * F @ torch.linalg.solve(K, F) + 0.5 * determinant
    # B × B
    for rows in (
        ExactRows(features.kernel, features.standardised(bags.X), segments, 0.0, 1e-14),
        InducedRows(features.kernel, features.standardised(bags.X), features.inducing, segments, 0.0, 1e-14),
    ):
        with torch.no_grad():
            T = rows.rows(weights)
            mode = find_mode(WitnessLoss(loss), T, [torch.zeros_like(T[0])])
            alpha = -loss.slope(T @ mode.v)
            assert float(log_evidence(WitnessLoss(loss), T, mode.v)) == pytest.approx(-float(nll), abs=1e-8)
            torch.testing.assert_close(rows.scores(weights, alpha), F, rtol=0, atol=1e-8)
    (fit,) = fit_witness(features, bags, [loss], [(weights, mode.trace)])
    torch.testing.assert_close(phi @ fit.mean, F, rtol=0, atol=1e-8)
    covariance = phi @ torch.cholesky_inverse(fit.factor) @ phi.T
    middle = torch.linalg.inv(torch.linalg.inv(torch.diag(loss.bend(P @ F))) + P @ K @ P.T)
    torch.testing.assert_close(covariance, K - K @ P.T @ middle @ P @ K, rtol=0, atol=1e-8)  # (6.6)


def test_rows_have_the_right_products_with_bias_through_few_or_many_inducing_inputs(problem):
    bags, _ = problem
    segments = segments_of(bags.sizes)
    weights = uniform_weights(segments)
    for R in (4, 30):
        features = features_of(bags, n_inducing=R, bias=3.0)
        phi = torch.from_numpy(features.transform(bags)[0])
        T = segments.sum(weights[:, None] * phi)
        rows = rows_of(features, bags, exact=False)(features.kernel)
        found = rows.rows(weights).detach()
        torch.testing.assert_close(found @ found.T, T @ T.T, rtol=1e-4, atol=1e-4)
        assert found.shape[1] == min(R, len(bags)) + 1


def test_annealing_settles_and_finds_the_witnesses(problem):
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(variance_of(features.kernel, 8.0))
    found = anneal(rows, losses(labels), Schedule(4), ModeLimits(200, 1e-2))
    assert found.trace.converged
    heaviest = [part.argmax() for part in np.split(found.weights.numpy(), bags.offsets[1:-1])]
    truth = [x[:, 0].argmax() for _, x in bags]
    positive = labels.numpy() == 1
    assert np.mean(np.array(heaviest)[positive] == np.array(truth)[positive]) > 0.7
    torch.testing.assert_close(segments_of(bags.sizes).sum(found.weights), torch.ones(len(bags), dtype=torch.float64))


def test_without_averaging_the_weights_cycle(problem):
    """What the averaging is for: the plain alternation still moves whole weights after a hundred rounds."""
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows, segments = rows_of(features, bags, exact=True)(variance_of(features.kernel, 8.0)), segments_of(bags.sizes)
    state, last = Annealing(rows, losses(labels), Schedule(1)), None
    with torch.no_grad():
        for _ in range(100):
            state._fit()
            last, state.weights = state.weights, soft_witness(state.scores, segments, 100.0)
    assert float((state.weights - last).abs().max()) > 0.5


def scores_written_out(K, P, loss):
    """F at the mode of Σ ℓ(P F) + ½ Fᵀ K⁻¹ F, by Newton's method over all N latent values."""
    F = torch.zeros(len(K), dtype=torch.float64)
    for _ in range(60):
        W = P.T @ torch.diag(loss.bend(P @ F)) @ P
        right = W @ F - P.T @ loss.slope(P @ F)
        F = torch.linalg.solve(torch.eye(len(F), dtype=F.dtype) + K @ W, K @ right)
    return F


@pytest.mark.parametrize("witnesses", ["soft", "alternating"])
def test_alternation_without_averaging_is_the_published_one_written_out(problem, witnesses):
    """Step (i) weights by (29) or (28), step (ii) a fit with the weights held fixed, in turn."""
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    phi, segments = torch.from_numpy(features.transform(bags)[0]), segments_of(bags.sizes)
    state = Annealing(
        rows_of(features, bags, exact=True)(features.kernel), losses(labels), Schedule(1, witnesses, averaged=False)
    )
    weights, K = uniform_weights(segments), phi @ phi.T
    for _ in range(4):
        P = torch.zeros(len(bags), len(phi), dtype=torch.float64)
        P[segments.index, torch.arange(len(phi))] = weights
        F = scores_written_out(K, P, losses(labels))
        weights = soft_witness(F, segments, 0.1) if witnesses == "soft" else hard_witness(F, segments)
        with torch.no_grad():
            state.step()
        torch.testing.assert_close(state.weights, weights, rtol=0, atol=1e-5)


def test_annealing_goes_on_until_nothing_changes(problem):
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(features.kernel)
    found = anneal(rows, losses(labels), Schedule(None), ModeLimits(200, 1e-2))
    assert sharpness_at(2) < found.sharpness <= sharpness_at(MOST_STAGES - 1)
    if found.sharpness < sharpness_at(MOST_STAGES - 1):  # it stopped by itself: a temperature less says the same
        stages = round(np.log10(found.sharpness / FIRST_SHARPNESS))
        shorter = anneal(rows, losses(labels), Schedule(stages)).weights
        assert float((found.weights - shorter).abs().max()) < 0.02


def test_annealing_of_bags_of_one_ends_after_three_temperatures():
    bags = Bags(np.random.default_rng(0).normal(size=(8, 2)), np.arange(8))
    features = exact_features(bags)
    rows = rows_of(features, bags, exact=True)(features.kernel)
    found = anneal(rows, losses(torch.arange(8.0, dtype=torch.float64) % 2), Schedule(None))
    assert found.sharpness == sharpness_at(2)
    assert found.trace.converged


def test_the_schedule_is_the_published_one():
    assert FIRST_SHARPNESS == 0.1
    assert [sharpness_at(stage) for stage in range(4)] == pytest.approx([0.1, 1.0, 10.0, 100.0])


def test_every_temperature_down_to_the_last_has_its_rounds(problem):
    """The residual counts the temperatures that are still to come."""
    bags, labels = problem
    rows = rows_of(exact_features(bags), bags, exact=True)(exact_features(bags).kernel)
    with torch.no_grad():
        state = Annealing(rows, losses(labels), Schedule(3))
        residuals = [state.step().residual for _ in range(46)]
    assert residuals == sorted(residuals, key=lambda value: -int(value))
    assert {int(residual) for residual in residuals} == {2, 1, 0}


def test_hard_witnesses_put_all_weight_on_one_instance(problem):
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(features.kernel)
    found = anneal(rows, losses(labels), Schedule(3, "hard"))
    assert set(found.weights.unique().tolist()) == {0.0, 1.0}


def variance_of(kernel, value):
    scaled = gpytorch.kernels.ScaleKernel(kernel).double()
    scaled.outputscale = value
    return scaled


# ---------------------------------------------------------------- sparse rows under a linear kernel


@pytest.fixture
def text():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((60, 200), density=0.05, rng=rng, format="csr")
    groups = np.repeat(np.arange(12), 5)
    return Bags(X, groups), Bags(X.toarray(), groups), torch.from_numpy(random_labels(rng, range(12)))


@pytest.mark.parametrize("standardize", [False, True])
def test_sparse_rows_give_the_products_of_dense_ones(text, standardize):
    sparse, dense, _ = text
    features = features_of(dense, kernel="linear", lengthscale=2.0, standardize=standardize, bias=1.5, jitter=1e-13)
    segments = segments_of(sparse.sizes)
    weights = soft_witness(torch.from_numpy(np.random.default_rng(1).normal(size=60)), segments, 2.0)
    alpha = torch.from_numpy(np.random.default_rng(2).normal(size=12))
    with torch.no_grad():
        rows = rows_of(features, sparse, exact=False)(features.kernel)
        assert isinstance(rows, SparseLinearRows)
        reference = ExactRows(features.kernel, features.standardised(dense.X), segments, 1.5, 1e-13)
        found, expected = rows.rows(weights), reference.rows(weights)
        torch.testing.assert_close(found @ found.T, expected @ expected.T, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(rows.scores(weights, alpha), reference.scores(weights, alpha), rtol=1e-9, atol=1e-9)
        means = segments.sum(weights[:, None] * features.standardised(dense.X))
        torch.testing.assert_close(rows.means(weights), means, rtol=1e-9, atol=1e-9)


def test_gradient_in_the_variance_of_a_linear_kernel(text):
    sparse, _, labels = text
    kernel = variance_of(gpytorch.kernels.LinearKernel(), 2.0)
    features = features_of(sparse, kernel=kernel, lengthscale=None, standardize=False, bias=1.0)
    weights = uniform_weights(segments_of(sparse.sizes))
    loss = WitnessLoss(losses(labels))

    def evidence():
        T = rows_of(features, sparse, exact=False)(kernel).rows(weights)
        return log_evidence(loss, T, find_mode(loss, T.detach(), [torch.zeros_like(T[0]).detach()]).v)

    evidence().backward()
    found = kernel.raw_outputscale.grad.item()
    ends = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            kernel.raw_outputscale += step
            ends.append(evidence().item())
            kernel.raw_outputscale -= step
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_the_witness_is_the_largest_score(problem):
    bags, _ = problem
    F = torch.from_numpy(np.random.default_rng(5).normal(size=bags.n_instances))
    segments = segments_of(bags.sizes)
    assert (hard_witness(F, segments) == 1.0).sum() == len(bags)
