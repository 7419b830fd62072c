"""Candidate sets by exact Gaussian process regression, one kernel matrix for all classes (theory (7.7), (7.8)).

    w_c = (K + Σ_c)⁻¹ y_c,   posterior mean of f_c at the instances  K w_c = y_c − Σ_c w_c

K holds the constant (b² added to the kernel). The gradient of the negative log evidence is contracted with dK block by
block, and its trace is estimated by Rademacher probes z (Hutchinson):

    dNLL = ½ Σ_c [tr((K + Σ_c)⁻¹ dK) − w_cᵀ dK w_c],   tr((K + Σ_c)⁻¹ dK) ≈ mean over z of ((K + Σ_c)⁻¹ z)ᵀ dK z.

The same probes serve all rounds: solutions then change little from round to round and are good places to start from.
With dtype float32 the kernel matrix is in single precision. Vectors and preconditioner never are: the largest
eigenvalue of K grows with n, the noise does not, and rounded vectors keep conjugate gradients from ever arriving.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.dirichlet import (
    FIRST_ROUNDS,
    CandidateChunk,
    CandidateEvidence,
    Disambiguation,
    Targets,
    targets_of,
    total_change,
)
from bagwise.bags import Bags
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.gp import kernels
from bagwise.gp.features import Features, assemble
from bagwise.gp.ground import Ground, standardised_rows
from bagwise.gp.posterior import ExactPosterior
from bagwise.inference.candidates.conjugate_gradients import MOST_ITERATIONS, LowRank, Solution, solve
from bagwise.inference.candidates.kernel_matrix import KernelMatrix, pivoted_cholesky
from bagwise.inference.kernel_learning.ascent import KernelAscent
from bagwise.inference.loop import Report
from bagwise.numerics.linalg import whiten
from bagwise.numerics.segments import Segments

ROUND_TOLERANCE = 1e-3  # of |b − A x| / |b| while targets and kernel still move …
PROBE_TOLERANCE = 1e-2  # … and of the probes, whose estimate is rough anyway
FINAL_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}
_BATCH_BYTES = {"cpu": 2**26, "cuda": 2**31}  # of one (n, C, test instances) array; a solve needs about six


class ExactSettings(NamedTuple):
    """How to solve."""

    disambiguation: Disambiguation
    rank: int  # of the preconditioner
    n_probes: int  # for every class
    seed: int
    kept_bytes: int | None = None  # largest kernel matrix that is kept; None for the usual


def exact_rounds(
    kernel: Any,
    ground: Ground,
    bags: Bags,
    evidence: CandidateEvidence,
    settings: "ExactSettings",
    dtype: torch.dtype,
) -> "ExactRounds":
    """Rounds over some bags that all have candidates."""
    device = ground.shift.device
    x = standardised_rows(bags.X, ground.shift, ground.scale).to(dtype)
    segments = Segments(torch.from_numpy(bags.offsets.copy()).to(device))
    candidates = evidence.chunk(slice(0, len(bags)), dtype, device)
    return ExactRounds(kernel, x, ground.bias, candidates, segments, settings)


class ExactRounds:
    """Solve, renew the targets, move the kernel a little; again."""

    def __init__(
        self,
        kernel: Any,
        x: Tensor,
        bias: float,
        candidates: CandidateChunk,
        segments: Segments,
        settings: ExactSettings,
    ) -> None:
        self._matrix = KernelMatrix(copy.deepcopy(kernel), x, bias, settings.kept_bytes)
        self._candidates, self._segments, self._settings = candidates, segments, settings
        self._alpha = settings.disambiguation.start(candidates, segments)
        self._made = 0
        self._ascent: KernelAscent | None = None
        self._n_steps, self._learn_start = 1, FIRST_ROUNDS
        self._probes = torch.empty(0)
        self._start: Tensor | None = None
        self._factorise()

    def learn(self, n_rounds: int, n_steps: int, start: int = FIRST_ROUNDS) -> None:
        """Let the kernel be learned: so many rounds at most, so many steps in each but the first ``start``."""
        ascent = KernelAscent(self._matrix.kernel, self._matrix.x.shape[1], (n_rounds - start) * n_steps)
        if ascent.free:
            self._ascent, self._n_steps, self._learn_start = ascent, n_steps, start

    def round(self) -> Report:
        """One round; how far it moved α, and α or the kernel (plus one if another rule is to come)."""
        moved, learning = 0.0, self._ascent is not None and self._made >= self._learn_start
        if learning and not len(self._probes):
            self._probes = self._drawn_probes()
            self._start = None if self._start is None else torch.cat([self._start, torch.zeros_like(self._probes)], 2)
        for _ in range(self._n_steps if learning else 1):
            solution, targets = self._solved(ROUND_TOLERANCE)
            self._start = solution.x
            moved = max(moved, self._moved_kernel(solution.x[:, :, 0], solution.x[:, :, 1:]) if learning else 0.0)
        latent = self._latent(targets, solution.x[:, :, 0])
        before = self._alpha
        self._alpha = self._settings.disambiguation.renew(before, latent, self._candidates, self._segments, self._made)
        self._made += 1
        change = float(total_change(before, self._alpha)) / len(before)
        return Report(change, max(change, moved) + self._settings.disambiguation.to_come(self._made))

    def finish(self, shift: Tensor, scale: Tensor, jitter: float) -> tuple[Features, ExactPosterior]:
        """The posterior given the last targets and the last kernel, and features at the pivots of the latter."""
        self._start = None if self._start is None else self._start[:, :, :1]
        self._probes = torch.empty(0)
        tol = FINAL_TOLERANCE[self._matrix.x.dtype]
        solution, targets = self._solved(tol)
        if solution.residual > tol:
            warn_user(
                f"conjugate gradients stopped after {solution.iterations} iterations with a relative residual of "
                f"{solution.residual:.1e} (wanted {tol:.0e}); dtype='float64' or a larger preconditioner may help.",
                ConvergenceWarning,
            )
        features = self._features(shift, scale, jitter)
        return features, _posterior(features, self._matrix.x, solution.x[:, :, 0], targets.noise)

    def alpha(self) -> Tensor:
        """The concentrations of all instances, (N, C)."""
        return self._alpha

    def _latent(self, targets: Targets, weights: Tensor) -> Tensor:
        """The means that α is renewed by, (n, C): of f, K w = y − Σ w, or of the constants, bias² Σ_i w_i."""
        if self._settings.disambiguation.by_constants:
            return (self._matrix.bias**2 * weights.sum(0)).expand_as(weights)
        return targets.value - targets.noise * weights

    def _solved(self, tol: float) -> tuple[Solution, Targets]:
        """Targets and, roughly, probes together; then the targets alone, to ``tol``."""
        targets = targets_of(self._alpha)
        product, low_rank = self._matrix.product, LowRank(self._phi, targets.noise)
        b, start = targets.value[:, :, None].contiguous(), self._start
        if len(self._probes):
            both = torch.cat([b, self._probes], dim=2)
            rough = solve(product, low_rank, both, tol=PROBE_TOLERANCE, start=start)
            fine = solve(product, low_rank, b, tol=tol, start=rough.x[:, :, :1])
            return fine._replace(x=torch.cat([fine.x, rough.x[:, :, 1:]], dim=2)), targets
        return solve(product, low_rank, b, tol=tol, start=start), targets

    def _moved_kernel(self, w: Tensor, u: Tensor) -> float:
        """One step along (7.8)."""
        if self._ascent is None:
            return 0.0
        left = torch.cat([u.flatten(1) / u.shape[2], -w], dim=1).mul_(0.5).to(self._matrix.x)
        self._matrix.pull_back(left, torch.cat([self._probes.flatten(1), w], dim=1).to(left))
        moved = self._ascent.step()
        self._matrix.renew()
        self._factorise()
        return moved

    def _factorise(self) -> None:
        phi, self._pivots = pivoted_cholesky(self._matrix, self._settings.rank)
        bias, phi = self._matrix.bias, phi.double()
        self._phi = torch.cat([phi, torch.full_like(phi[:, :1], bias)], dim=1) if bias > 0 else phi

    def _drawn_probes(self) -> Tensor:
        """±1 of shape (n, C, probes), the same on every device."""
        shape = (*self._alpha.shape, self._settings.n_probes)
        generator = torch.Generator().manual_seed(self._settings.seed)
        return torch.randint(0, 2, shape, generator=generator).mul_(2).sub_(1).to(self._alpha)

    def _features(self, shift: Tensor, scale: Tensor, jitter: float) -> Features:
        used = self._pivots[(self._phi[:, : len(self._pivots)] != 0).any(0)]
        kernel = copy.deepcopy(self._matrix.kernel)
        origin = f"{len(used)} pivots of the kernel matrix"
        inducing = self._matrix.x[torch.unique(used)]
        return assemble(kernel, inducing, shift, scale, bias=self._matrix.bias, jitter=jitter, origin=origin)


def _posterior(features: Features, x: Tensor, weights: Tensor, noise: Tensor) -> ExactPosterior:
    phi = features.of_standardised(x).double()
    low_rank = LowRank(phi, noise)
    order = torch.arange(noise.shape[1], device=x.device)
    return ExactPosterior(phi.T @ weights, low_rank.factors, order, x, weights, noise)


# ---------------------------------------------------------------- predictions


def exact_moments(
    features: Features, posterior: ExactPosterior, bags: Bags, steps: int | None
) -> tuple[Tensor, Tensor]:
    """Mean and variance of every f_c at the instances of some bags, (N, C) each.

    The variance k** − k*ᵀ(K + Σ_c)⁻¹k* by ``steps`` conjugate gradients from nothing, with the preconditioner: each
    step can only lower it, towards the exact value (None: that). Without any step it is that of the low-rank posterior.
    """
    variance_of = _low_rank_variance(posterior) if steps == 0 else _solved_variance(features, posterior, steps)
    rows = max(1, _BATCH_BYTES[features.device.type] // (8 * len(posterior.inputs)))  # of k(X, x*) at a time
    means, variances = [], []
    for part, design in features.designs(bags):
        x = features.standardised(bags[part].X)
        for some in (slice(start, start + rows) for start in range(0, len(x), rows)):
            cross = kernels.cross(features.kernel, posterior.inputs, x[some]).detach() + features.bias**2
            means.append((cross.T @ posterior.weights.to(cross)).double())
            variances.append(variance_of(x[some], design.phi[some], design.kappa[some]))
    return torch.cat(means), torch.cat(variances)


VarianceOf = Callable[[Tensor, Tensor, Tensor], Tensor]


def _low_rank_variance(posterior: ExactPosterior) -> VarianceOf:
    def variance(x: Tensor, phi: Tensor, kappa: Tensor) -> Tensor:
        spread = [whiten(factor, phi.double().T).square().sum(0) for factor in posterior.factors]
        return torch.stack(spread, dim=1) + kappa.double()[:, None]

    return variance


def _solved_variance(features: Features, posterior: ExactPosterior, steps: int | None) -> VarianceOf:
    """In double precision whatever the features are in: what is explained is almost all there is."""
    matrix = KernelMatrix(copy.deepcopy(features.kernel).double(), posterior.inputs.double(), features.bias)
    low_rank = LowRank(features.of_standardised(posterior.inputs).double(), posterior.noise)
    limit, tol = (MOST_ITERATIONS, FINAL_TOLERANCE[torch.float64]) if steps is None else (steps, 0.0)
    n, C = posterior.noise.shape
    batch = max(1, _BATCH_BYTES[features.device.type] // (n * C * matrix.x.element_size()))

    def explained(cross: Tensor) -> Tensor:
        b = cross[:, None, :].expand(-1, C, -1).contiguous()
        solution = solve(matrix.product, low_rank, b, tol=tol, max_iter=limit)
        return torch.einsum("nm,ncm->mc", cross, solution.x)

    def variance(x: Tensor, phi: Tensor, kappa: Tensor) -> Tensor:
        cross = kernels.cross(matrix.kernel, matrix.x, x.double()).detach() + features.bias**2
        prior = kernels.diagonal(matrix.kernel, x.double()).detach()[:, None] + features.bias**2
        parts = [explained(some) for some in torch.split(cross, batch, dim=1)]
        return torch.maximum(prior - torch.cat(parts), torch.finfo(torch.float64).eps * prior)

    return variance
