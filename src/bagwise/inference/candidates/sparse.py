"""Candidate sets by sparse Gaussian process regression, one regression per class (theory (7.2)–(7.4), (7.9), (7.10)).

With D_c = Σ_c (VFE) or Σ_c + diag κ (FITC), A_c = I + Φᵀ D_c⁻¹ Φ and b_c = Φᵀ D_c⁻¹ y_c the posterior of v_c is
N(A_c⁻¹ b_c, A_c⁻¹). A_c and b_c are sums over bags. An instance whose bag excludes class c says the same about it
whatever α is: log α_eps. So Φᵀ D_c⁻¹ Φ is one matrix for all classes plus what the candidates of class c add, which
makes C classes with candidate sets of two or three cost about as much as two or three.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.dirichlet import (
    FIRST_ROUNDS,
    CandidateEvidence,
    Disambiguation,
    Targets,
    targets_of,
    total_change,
)
from bagwise.bags import Bags
from bagwise.gp.features import Design, Features, reassembled, traced_design
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.chunks import Chunk, Chunks, InMemory, Sums
from bagwise.inference.kernel_learning.ascent import KernelAscent
from bagwise.inference.loop import Report
from bagwise.inference.places import chunks_of
from bagwise.numerics.linalg import cholesky, logdet, solve_factor
from bagwise.numerics.links import LOGISTIC
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import LOG_2PI

APPROXIMATIONS = ("vfe", "fitc")


class Regression(NamedTuple):
    """What every chunk must know to say what it has to say."""

    disambiguation: Disambiguation
    approximation: str


class Weights(NamedTuple):
    """Precisions of the targets, (n, C), by what all classes share and what candidates add."""

    every: Tensor  # 1 / D
    common: Tensor  # (n,) that of a class which is no candidate
    members: list[Tensor]  # rows of the candidates of every class

    def gram(self, phi: Tensor) -> Tensor:
        """Φᵀ diag(1/D_c) Φ for every class, (C, R, R)."""
        shared = phi.T @ (phi * self.common[:, None])
        return torch.stack([shared + self._more(phi, c).T @ phi[rows] for c, rows in enumerate(self.members)])

    def spread(self, phi: Tensor, matrices: Tensor) -> Tensor:
        """Σ_c diag(1/D_c) Φ M_c, (n, R)."""
        out = (phi * self.common[:, None]) @ matrices.sum(0)
        for c, rows in enumerate(self.members):
            out.index_add_(0, rows, self._more(phi, c) @ matrices[c])
        return out

    def squared(self) -> "Weights":
        """The same with 1/D²."""
        return Weights(self.every.square(), self.common.square(), self.members)

    def _more(self, phi: Tensor, c: int) -> Tensor:
        rows = self.members[c]
        return phi[rows] * (self.every[rows, c] - self.common[rows])[:, None]


def weights_of(chunk: Chunk, targets: Targets, model: Regression) -> Weights:
    """1/D of every instance and class of a chunk."""
    design = chunk.design
    extra = design.kappa if model.approximation == "fitc" else torch.zeros_like(design.kappa)
    excluded = targets_of(torch.tensor(model.disambiguation.eps, dtype=torch.float64)).noise.to(extra)
    candidates = design.segments.spread(chunk.evidence.candidates)
    members = [part.nonzero()[:, 0] for part in candidates.T]
    return Weights(1.0 / (targets.noise + extra[:, None]), 1.0 / (excluded + extra), members)


def _targets(chunk: Chunk, alpha: Tensor) -> Targets:
    exact = targets_of(alpha)
    return Targets(*(part.to(chunk.design.phi.dtype) for part in exact))


# ---------------------------------------------------------------- steps over chunks


def start_step(chunk: Chunk, remembered: Any, model: Regression) -> tuple[Sums, Tensor]:
    """α before the first round."""
    return {}, model.disambiguation.start(chunk.evidence, chunk.design.segments)


def moment_step(chunk: Chunk, alpha: Tensor, model: Regression) -> tuple[Sums, Tensor]:
    """Φᵀ D⁻¹ Φ (C, R, R), Φᵀ D⁻¹ y (R, C), and what else (7.9) needs of a chunk (C,)."""
    phi, targets = chunk.design.phi, _targets(chunk, alpha)
    weights = weights_of(chunk, targets, model)
    weighted = weights.every * targets.value
    constant = (targets.value * weighted - weights.every.log()).sum(0) + len(phi) * LOG_2PI
    if model.approximation == "vfe":
        constant = constant + (chunk.design.kappa[:, None] * weights.every).sum(0)
    return {"gram": weights.gram(phi), "pull": phi.T @ weighted, "constant": constant}, alpha


class Renewal(NamedTuple):
    """What is needed to renew α: the posterior mean of v, the rule, how many rounds there were."""

    mean: Tensor
    model: Regression
    rounds_made: int


def renewal_step(chunk: Chunk, alpha: Tensor, shared: Renewal) -> tuple[Sums, Tensor]:
    """α from the posterior means Φμ (of the last column, the constant, alone), and how far it moved."""
    rule = shared.model.disambiguation
    used = slice(-1, None) if rule.by_constants else slice(None)
    phi = chunk.design.phi[:, used]
    latent = phi @ shared.mean[used].to(phi.dtype)
    after = rule.renew(alpha, latent, chunk.evidence, chunk.design.segments, shared.rounds_made)
    return {"change": total_change(alpha, after)}, after


# ---------------------------------------------------------------- posterior and log evidence


class Fit(NamedTuple):
    """The posterior at some targets, and the log evidence (7.9) of these, all classes together."""

    posterior: GaussianPosterior
    log_evidence: float


def fit_targets(chunks: Chunks, model: Regression) -> Fit:
    """One sweep: sums, then one Cholesky per class."""
    sums = chunks.sweep(moment_step, model)
    C = len(sums["gram"])
    sums["gram"].diagonal(dim1=1, dim2=2).add_(1.0)
    factors = torch.stack([cholesky(precision, what="precision").lower for precision in sums["gram"]])
    mean = torch.cat([solve_factor(factors[c], sums["pull"][:, [c]]) for c in range(C)], dim=1)
    twice = sums["constant"] + logdet(factors) - (sums["pull"] * mean).sum(0)
    order = torch.arange(C, device=mean.device)
    return Fit(GaussianPosterior(mean, factors, order, LOGISTIC), -0.5 * float(twice.sum()))


def evidence_cotangents(
    chunk: Chunk, alpha: Tensor, posterior: GaussianPosterior, model: Regression
) -> tuple[Tensor, ...]:
    """Derivatives of the negative (7.9) by φ (n, R) and κ (n,), at the posterior of these very targets.

    dφ = Σ_c D_c⁻¹ Φ A_c⁻¹ − e_c μ_cᵀ,   e_c = D_c⁻¹ (y_c − Φ μ_c)
    dκ = ½ Σ_c 1/D_c   (VFE),   ½ Σ_c [1/D_c − φᵀA_c⁻¹φ / D_c² − e_c²]   (FITC)
    """
    phi, targets = chunk.design.phi, _targets(chunk, alpha)
    weights = weights_of(chunk, targets, model)
    mean, inverses = posterior.mean.to(phi), torch.cholesky_inverse(posterior.factors).to(phi)
    errors = weights.every * (targets.value - phi @ mean)
    by_phi = weights.spread(phi, inverses) - errors @ mean.T
    by_kappa = weights.every.sum(1)
    if model.approximation == "fitc":
        explained = (weights.squared().spread(phi, inverses) * phi).sum(1)
        by_kappa = by_kappa - explained - errors.square().sum(1)
    return by_phi, 0.5 * by_kappa


# ---------------------------------------------------------------- the iteration


class _Learner:
    """Moves the kernel along the gradient of (7.9) on some of the bags, which follow the rounds of all."""

    def __init__(
        self,
        features: Features,
        bags: Bags,
        evidence: CandidateEvidence,
        model: Regression,
        n_rounds: int,
        n_steps: int,
        start: int,
    ) -> None:
        self.kernel = copy.deepcopy(features.kernel)
        self._features, self._model, self._n_steps, self._start = features, model, n_steps, start
        self._ascent = KernelAscent(self.kernel, bags.n_features, (n_rounds - start) * n_steps)
        self._x = features.standardised(bags.X)
        self._segments = Segments(torch.from_numpy(bags.offsets.copy()).to(features.device))
        self._evidence = evidence.chunk(slice(0, len(bags)), features.dtype, features.device)
        _, self._alpha = start_step(self._chunk(self._design()), None, model)

    @property
    def free(self) -> int:
        """How many parameters there are to learn."""
        return self._ascent.free

    def move(self, renewal: Renewal) -> float:
        """Some steps with α as it is; then α is renewed as that of all others, from the kernel as it was before."""
        with torch.no_grad():
            _, alpha = renewal_step(self._chunk(self._design()), self._alpha, renewal)
        moved = 0.0
        for _ in range(self._n_steps if renewal.rounds_made >= self._start else 0):
            self._backward()
            moved = max(moved, self._ascent.step())
        self._alpha = alpha
        return moved

    def _backward(self) -> None:
        """Leave the gradient of the negative log evidence in the kernel."""
        design = self._design()
        chunk = self._chunk(Design(design.phi.detach(), design.kappa.detach(), design.segments))
        posterior = fit_targets(InMemory([chunk], [self._alpha]), self._model).posterior
        cotangents = evidence_cotangents(chunk, self._alpha, posterior, self._model)
        torch.autograd.backward((design.phi, design.kappa), cotangents)

    def _design(self) -> Design:
        return traced_design(self._features, self.kernel, self._features.inducing, self._x, self._segments)

    def _chunk(self, design: Design) -> Chunk:
        return Chunk(design, self._evidence)


class SparseRounds:
    """Fit the targets, renew them, move the kernel a little; again."""

    def __init__(self, features: Features, bags: Bags, evidence: CandidateEvidence, model: Regression) -> None:
        self.features = features
        self._bags, self._evidence, self._model = bags, evidence, model
        self._chunks = chunks_of(features, bags, evidence)
        self._chunks.sweep(start_step, model)
        self._made = 0
        self._learner: _Learner | None = None

    def learn(self, some: NDArray[np.int64], n_rounds: int, n_steps: int, start: int = FIRST_ROUNDS) -> None:
        """Let the kernel be learned from some of the bags: so many rounds at most, so many steps in each.

        There are none in the first ``start`` rounds.
        """
        chosen = self._bags[some]
        evidence = CandidateEvidence(self._evidence.table[some], chosen.offsets)
        learner = _Learner(self.features, chosen, evidence, self._model, n_rounds, n_steps, start)
        self._learner = learner if learner.free else None

    def round(self) -> Report:
        """One round; how far it moved α, and α or the kernel (plus one if another rule is to come)."""
        mean = fit_targets(self._chunks, self._model).posterior.mean
        renewal = Renewal(mean, self._model, self._made)
        change = float(self._chunks.sweep(renewal_step, renewal)["change"]) / self._bags.n_instances
        moved = 0.0 if self._learner is None else self._learner.move(renewal)
        if moved > 0.0 and self._learner is not None:
            self._rebuild(self._learner.kernel)
        self._made += 1
        return Report(change, max(change, moved) + self._model.disambiguation.to_come(self._made))

    def finish(self) -> Fit:
        """The posterior given the last targets and the last kernel."""
        return fit_targets(self._chunks, self._model)

    def alpha(self) -> Tensor:
        """The concentrations of all instances, (N, C)."""
        return torch.cat(self._chunks.remembered)

    def _rebuild(self, kernel: Any) -> None:
        """Features with the new kernel; α stays with its chunks."""
        remembered = self._chunks.remembered
        self.features = reassembled(self.features, kernel=copy.deepcopy(kernel))
        self._chunks = chunks_of(self.features, self._bags, self._evidence, remembered=remembered)
