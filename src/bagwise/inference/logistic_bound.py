"""Variational inference for logistic instances by a quadratic bound on log σ (theory section 5).

    log σ(−f) ≥ log σ(ξ) − (f + ξ)/2 − λ(ξ)(f² − ξ²)

makes everything quadratic in f. So each instance adds a precision Λ, a shift t and a constant, whichever model it
belongs to; with S = (I + Φᵀ Λ Φ)⁻¹ and m = S Φᵀ t (5.1) the bound is

    Σ constants − ½ Σ Λ κ + ½ mᵀ Φᵀ t − ½ log det(I + Φᵀ Λ Φ)

for the terms of (5.4) that hold v are tᵀΦm − ½ (mᵀΦᵀΛΦm + tr S ΦᵀΛΦ) − KL, and m and S are where that is largest. One
sweep per iteration: f and <f²> under the last q(v), then ξ and q(y), then the sums for the next q(v). Every step is a
coordinate maximisation, so the bound never falls (unless q(y) is updated in parallel).
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bagwise.bag_models.noisy_or import BagBelief, BagStatements, NoisyOr
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.belief import Belief, solved
from bagwise.inference.chunks import Chunk, Chunks, Sums
from bagwise.inference.loop import Report
from bagwise.numerics.linalg import logdet, weighted_gram
from bagwise.numerics.links import LOGISTIC
from bagwise.numerics.special import bernoulli_entropy, jaakkola_lambda, log_sigmoid

_KEPT = 4.0  # logit of q(g) to begin with: every margin is kept, or most would never be
_RELEASE = 1e-3  # relative change of the bound at which trusting beliefs have settled well enough


class Local(NamedTuple):
    """What is remembered of the instances of a chunk, each (n, K)."""

    belief: BagBelief  # q(y)
    gate: Tensor  # logit of q(g), whether the margin is kept; of no use without a margin


class Tangent(NamedTuple):
    """The quadratic bound on one log σ, (n, K): λ(ξ), and what stands besides f and f²: log σ(ξ) − ξ/2 + λ ξ²."""

    curvature: Tensor
    constant: Tensor


class Quadratic(NamedTuple):
    """What the instances of a chunk say about f."""

    weight: Tensor  # Λ (n, K)
    shift: Tensor  # t (n, K)
    constant: Tensor  # (n, K), and …
    own: Tensor  # … (K,) what q(y) adds to the bound


class Bound(Protocol):
    """How an instance is bounded."""

    def start(self, local: Local) -> Quadratic:
        """The quadratic to begin with, where nothing is known of f: at ξ = 1, and φ = 1."""

    def quadratic(
        self, f: Tensor, square: Tensor, local: Local, bags: NoisyOr, stated: BagStatements
    ) -> tuple[Quadratic, Local]:
        """The quadratic at <f> and <f²> under q(v), (n, K) each, after everything else was brought up to them."""


class PlainBound:
    """VGPMIL, (5.2)–(5.4)."""

    def start(self, local: Local) -> Quadratic:
        """At ξ = 1."""
        return self._collected(local, _tangent(torch.ones_like(local.belief.pi)))

    def quadratic(
        self, f: Tensor, square: Tensor, local: Local, bags: NoisyOr, stated: BagStatements
    ) -> tuple[Quadratic, Local]:
        """ξ² = <f²>, and q(y) at log odds <f>."""
        local = local._replace(belief=bags.update(f, local.belief.logits, stated))
        return self._collected(local, _tangent(square)), local

    def _collected(self, local: Local, tangent: Tangent) -> Quadratic:
        return Quadratic(2.0 * tangent.curvature, local.belief.pi - 0.5, tangent.constant, local.belief.own)


class MarginBound:
    """LM-VGPMIL, (5.7)–(5.11): g says whether an instance keeps a margin V from the border, softly by C."""

    def __init__(self, C: float, V: float) -> None:
        self.C, self.V = C, V

    def start(self, local: Local) -> Quadratic:
        """At ξ = φ = 1; at the ξ = CV and φ = 0 that f = 0 asks for, most instances would never find their side."""
        one = _tangent(torch.ones_like(local.gate))
        return self._collected(local, one, one)

    def quadratic(
        self, f: Tensor, square: Tensor, local: Local, bags: NoisyOr, stated: BagStatements
    ) -> tuple[Quadratic, Local]:
        """q(g), then q(y), each with the bounds that fit what was there before; then the bounds that fit them."""
        C, V = self.C, self.V
        margin, side = (tangent.curvature for tangent in self._tangents(f, square, local))
        sign = 2.0 * local.belief.pi - 1.0
        gate = C * (sign * f - V) + f * (local.belief.pi - 0.5) - side * square  # (5.9)
        kept = torch.sigmoid(gate)
        eta = f * (2.0 * C * kept - C + 4.0 * C * C * margin * V + kept)  # (5.10)
        local = Local(bags.update(eta, local.belief.logits, stated), gate)
        return self._collected(local, *self._tangents(f, square, local)), local

    def _collected(self, local: Local, margin: Tangent, side: Tangent) -> Quadratic:
        """(5.7), and the terms of (5.11) without f."""
        C, V, sign, kept = self.C, self.V, 2.0 * local.belief.pi - 1.0, torch.sigmoid(local.gate)
        weight = 2.0 * (margin.curvature * C * C + side.curvature * kept)
        shift = C * sign * (kept - 0.5 + 2.0 * C * V * margin.curvature) + kept * (local.belief.pi - 0.5)
        constant = margin.constant - C * V * (kept - 0.5) - margin.curvature * (C * V) ** 2 + side.constant
        return Quadratic(weight, shift, constant + bernoulli_entropy(local.gate), local.belief.own)

    def _tangents(self, f: Tensor, square: Tensor, local: Local) -> tuple[Tangent, Tangent]:
        """The bounds of the margin (ξ) and of the side (φ), by (5.8)."""
        sign = 2.0 * local.belief.pi - 1.0
        distance = self.C**2 * (square - 2.0 * sign * f * self.V + self.V**2)
        return _tangent(distance.clamp(min=0.0)), _tangent(torch.sigmoid(local.gate) * square)


def _tangent(square: Tensor) -> Tangent:
    """The bound that touches log σ at ξ² = ``square``."""
    xi = torch.sqrt(square)
    curvature = jaakkola_lambda(xi)
    return Tangent(curvature, log_sigmoid(xi) - 0.5 * xi + curvature * square)


class Shared(NamedTuple):
    """What everyone knows."""

    belief: Belief
    bound: Bound
    bags: NoisyOr


def bound_step(chunk: Chunk, local: Local | None, shared: Shared) -> tuple[Sums, Local]:
    """Everything about the instances of a chunk at the last q(v), and what they add to the next."""
    phi, kappa, stated = chunk.design.phi, chunk.design.kappa[:, None].double(), chunk.evidence
    if local is None:
        local = _start(shared.bags.start(stated))
        found = shared.bound.start(local)
    else:
        f = shared.belief.centre(phi).double()
        square = f.square() + shared.belief.spread(phi).double() + kappa
        found, local = shared.bound.quadratic(f, square, local, shared.bags, stated)
    weight, shift, constant = (stated.weights.of_rows(part * stated.informed, stated.segments) for part in found[:3])
    sums = {
        "precision": torch.stack([weighted_gram(phi, column) for column in weight.T.to(phi.dtype)]),
        "shift": phi.T @ shift.to(phi.dtype),
        "constant": (constant - 0.5 * weight * kappa).sum(0) + found.own,
    }
    return sums, local


def _start(belief: BagBelief) -> Local:
    return Local(belief, torch.full_like(belief.pi, _KEPT))


class LogisticBound:
    """The state of the iteration; q(y) and what goes with it stay with their chunks.

    In single precision (not ``exact``) two values of the bound can agree by chance while it still rises. There its
    change is taken to be ½ |Δμ|² in units of the posterior, which rounding hardly touches.
    """

    def __init__(
        self,
        chunks: Chunks,
        bound: Bound,
        bags: NoisyOr,
        n_columns: int,
        n_labels: int,
        device: torch.device,
        exact: bool = True,
    ) -> None:
        self._chunks = chunks
        self._shared = Shared(Belief.prior(n_columns, n_labels, device), bound, bags)
        self._factors = self._shared.belief.inverse
        self.value = torch.full((n_labels,), -torch.inf, dtype=torch.float64, device=device)  # (5.4), (5.6) or (5.11)
        self._comparable = False  # whether the last value is one of the present objective
        self._exact = exact

    def go_on_with(self, bound: Bound) -> None:
        """From here on instances are bounded otherwise; the objective before and after cannot be compared."""
        self._shared, self._comparable = self._shared._replace(bound=bound), False

    def step(self) -> Report:
        """One iteration; reports the bound after it and its largest relative change in any label column."""
        sums = self._chunks.sweep(bound_step, self._shared)
        last = self._shared.belief.mean
        self._factors, belief = solved(sums["precision"], sums["shift"])
        self._shared = self._shared._replace(belief=belief)
        value = sums["constant"] + 0.5 * (sums["shift"] * belief.mean).sum(0) - 0.5 * logdet(self._factors)
        before = self.value if self._comparable else torch.full_like(value, torch.inf)
        rise = (value - before).abs() if self._exact else 0.5 * self._moved(belief.mean - last)
        change = (rise / value.abs().clamp(min=1.0)).clamp(max=1.0)
        self.value, self._comparable = value, True
        return Report(float(value.sum()), float(self._released(change).max()))

    def _moved(self, step: Tensor) -> Tensor:
        """|Lᵀ Δμ|² per label column, with the precision LLᵀ of q(v)."""
        return (self._factors.mT @ step.T[:, :, None]).square().sum((1, 2))

    def _released(self, change: Tensor) -> Tensor:
        """Change of the bound per label column, (K,).

        Columns whose labels are still trusted never count as converged; those that have stopped moving are released.
        """
        bags = self._shared.bags
        self._shared = self._shared._replace(bags=bags.released(change < _RELEASE))
        return torch.where(bags.trusting, change.clamp(min=_RELEASE), change)

    def posterior(self) -> GaussianPosterior:
        """q(v)."""
        own = torch.arange(len(self._factors), device=self._factors.device)
        return GaussianPosterior(self._shared.belief.mean, self._factors, own, LOGISTIC)
