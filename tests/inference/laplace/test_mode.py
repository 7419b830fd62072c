"""One mode finder and one implicit gradient, for both approximations and both links."""

from dataclasses import replace

import gpytorch
import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from tests.problems import features_of, random_bags, random_labels, segments_of

from bagwise.bag_models.soft_max import BagLosses, Pooling, SoftMaxLoss, WitnessLoss, uniform_weights
from bagwise.gp.features import traced_design
from bagwise.inference.laplace import mode as laplace
from bagwise.inference.laplace.mode import find_mode, log_evidence, precision, projected_factor
from bagwise.inference.laplace.pooled_rows import ExactRows, InducedRows
from bagwise.numerics.links import LINKS


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=14)
    labels = random_labels(rng, bags)
    labels[5] = np.nan
    return bags, torch.from_numpy(labels), features_of(bags, bias=2.0, kernel=scaled_kernel(), lengthscale=None)


def scaled_kernel(variance=6.0, lengthscale=1.1):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = variance, lengthscale
    return kernel


def soft_max(bags, labels, link="logistic", pooling=None):
    return SoftMaxLoss(BagLosses(labels, LINKS[link]), segments_of(bags.sizes), pooling or Pooling())


def design_at(kernel, bags, features):
    x, segments = features.standardised(bags.X), segments_of(bags.sizes)
    return traced_design(replace(features, jitter=1e-10), kernel, features.inducing, x, segments).phi


@pytest.mark.parametrize("link", LINKS)
def test_the_mode_is_the_one_a_general_optimiser_finds(problem, link):
    bags, labels, features = problem
    loss, phi = soft_max(bags, labels, link), design_at(features.kernel, bags, features).detach()
    mode = find_mode(loss, phi, [torch.zeros_like(phi[0])])
    assert mode.trace.converged
    assert (np.diff(mode.trace.values) >= -1e-12).all()

    def height(v):
        v = torch.from_numpy(v)
        return float(loss.value(phi @ v) + 0.5 * v @ v), (phi.T @ loss.slope(phi @ v) + v).numpy()

    found = minimize(
        height, np.zeros(phi.shape[1]), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-15}
    )
    assert mode.height == pytest.approx(found.fun, abs=1e-9)
    np.testing.assert_allclose(mode.v.numpy(), found.x, atol=1e-4)


def test_newton_leaves_a_saddle_and_takes_the_lowest_of_several_starts(problem):
    """Two equal instances far apart in a positive bag: at the point between them the curvature is negative."""
    phi = torch.tensor([[6.0, 0.0], [0.0, 6.0], [6.0, 6.0]], dtype=torch.float64)
    loss = SoftMaxLoss(
        BagLosses(torch.tensor([1.0, 0.0], dtype=torch.float64), LINKS["logistic"]), segments_of((2, 1)), Pooling()
    )
    between = torch.tensor([0.0, 0.0], dtype=torch.float64)
    aside = torch.tensor([0.1, -0.1], dtype=torch.float64)
    A = precision(loss, phi, phi @ between)
    assert torch.linalg.eigvalsh(A)[0] < 0
    stuck, away = find_mode(loss, phi, [between]), find_mode(loss, phi, [aside])
    assert away.height < stuck.height - 0.1
    assert torch.linalg.eigvalsh(precision(loss, phi, phi @ away.v))[0] > 0
    assert find_mode(loss, phi, [between, aside]).height == away.height


def evidence_of(kernel, kind, link, problem):
    bags, labels, features = problem
    x, segments = features.standardised(bags.X), segments_of(bags.sizes)
    losses = BagLosses(labels, LINKS[link])
    if kind == "softmax":
        loss, phi = soft_max(bags, labels, link, Pooling("mean", 2.0)), design_at(kernel, bags, features)
    elif kind == "exact":
        loss, phi = WitnessLoss(losses), ExactRows(kernel, x, segments, 2.0, 1e-9).rows(uniform_weights(segments))
    else:
        rows = InducedRows(kernel, x, features.inducing, segments, 2.0, 1e-9)
        loss, phi = WitnessLoss(losses), rows.rows(uniform_weights(segments))
    mode = find_mode(loss, phi.detach(), [torch.zeros_like(phi[0]).detach()])
    return log_evidence(loss, phi, mode.v)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kind", ["softmax", "exact", "induced"])
def test_gradient_of_the_evidence_is_that_of_fitting_again(problem, kind, link):
    """The implicit term included: 1e-6 relative against central differences of whole new fits."""
    kernel = scaled_kernel()
    evidence_of(kernel, kind, link, problem).backward()
    for raw in kernel.parameters():
        found, step = float(raw.grad), 1e-5
        ends = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                raw += sign * step
                ends.append(float(evidence_of(kernel, kind, link, problem)))
                raw -= sign * step
        assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-7)


def test_without_the_implicit_term_the_gradient_is_wrong(problem):
    """So the check above could fail."""
    bags, labels, features = problem
    loss = soft_max(bags, labels)
    gradients = []
    for implicit in (True, False):
        kernel = scaled_kernel()
        phi = design_at(kernel, bags, features)
        mode = find_mode(loss, phi.detach(), [torch.zeros_like(phi[0]).detach()]).v
        if implicit:
            log_evidence(loss, phi, mode).backward()
        else:
            value = loss.value(phi @ mode) + 0.5 * mode @ mode + 0.5 * torch.logdet(precision(loss, phi, phi @ mode))
            (-value).backward()
        gradients.append(float(kernel.base_kernel.raw_lengthscale.grad))
    assert abs(gradients[0] - gradients[1]) > 1e-2 * abs(gradients[0])


@pytest.mark.parametrize("link", LINKS)
def test_evidence_equals_the_published_form_in_function_space(problem, link):
    """(22) of the paper: Σ ℓ + ½ Fᵀ K⁻¹ F + ½ log |I + K H|, with every instance an inducing input."""
    bags, labels, _ = problem
    features = features_of(bags, n_inducing=None, jitter=0.0, kernel="exponential", lengthscale=0.7)
    phi, _ = (torch.from_numpy(part) for part in features.transform(bags))
    loss = soft_max(bags, labels, link)
    mode = find_mode(loss, phi, [torch.zeros_like(phi[0])])
    K, F = phi @ phi.T, phi @ mode.v
    H = loss.curvature(torch.eye(len(F), dtype=F.dtype), F)
    A = torch.eye(len(F), dtype=F.dtype) + K @ H
    published = loss.value(F) + 0.5 * F @ torch.linalg.solve(K, F) + 0.5 * torch.linalg.slogdet(A)[1]
    assert float(log_evidence(loss, phi, mode.v)) == pytest.approx(-float(published), rel=1e-9)
    covariance = torch.linalg.inv(torch.linalg.inv(K) + H)
    factor = projected_factor(precision(loss, phi, F))
    torch.testing.assert_close(phi @ torch.cholesky_inverse(factor) @ phi.T, covariance, rtol=1e-6, atol=1e-8)


def test_eigenvalues_below_the_floor_are_lifted_and_the_gradient_follows():
    A = torch.tensor([[2.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    lower = projected_factor(A)
    torch.testing.assert_close(lower @ lower.T, torch.diag(torch.tensor([2.0, laplace.FLOOR], dtype=torch.float64)))
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    value = laplace._projected_logdet(torch.stack([torch.stack([x, 0 * x]), torch.stack([0 * x, -x])]), laplace.FLOOR)
    assert value.item() == pytest.approx(np.log(2.0 * laplace.FLOOR))
    value.backward()
    assert float(x.grad) == pytest.approx(0.5)


@pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
def test_gradient_in_the_features_is_that_of_finding_the_mode_again(link):
    random = np.random.default_rng(0)
    loss = WitnessLoss(BagLosses(torch.tensor([1.0, 0.0, 1.0, 1.0, np.nan, 0.0], dtype=torch.float64), link))
    phi = torch.tensor(2.0 * random.normal(size=(6, 3)), requires_grad=True)

    def evidence(rows):
        mode = find_mode(loss, rows.detach(), [torch.zeros(3, dtype=torch.float64)]).v
        return log_evidence(loss, rows, mode)

    (gradient,) = torch.autograd.grad(evidence(phi), phi)
    for row, column in ((0, 1), (2, 2), (5, 0)):
        step = torch.zeros_like(phi)
        step[row, column] = 1e-5
        slope = (evidence(phi.detach() + step) - evidence(phi.detach() - step)) / 2e-5
        assert float(gradient[row, column]) == pytest.approx(float(slope), abs=1e-7)
    assert float(gradient[4].abs().max()) == 0.0
