"""Expectation propagation with one Gaussian message per instance (theory section 4).

Every bag sends each of its instances a message exp(−τ f²/2 + ν f); the Gaussian process answers with the marginal of f
under all other messages. With d = 1 + τκ, τ̃ = τ/d, ν̃ = ν/d the process is q(v) ∝ N(v; 0, I) Π exp(−τ̃ (φᵀv)²/2 + ν̃ φᵀv):

    A = I + Φᵀ diag(τ̃) Φ,   mean = A⁻¹ Φᵀ ν̃                                                    additive over bags

Negative τ are right and frequent (an instance believed negative inside a positive bag) and are kept; what must hold is
d > 0, a positive cavity variance, and A positive definite, and a step that would break one of them is shortened.

A bag of weight w is w equal bags, whose messages are equal: A and the shift get w times the message, the cavity is
without one of them, and (4.4) has w times its terms. For other w that is power expectation propagation of the
likelihood to the power w, with the power 1/w (Minka 2004).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.belief import Belief, solved
from bagwise.inference.chunks import Chunk, Chunks, Sums
from bagwise.inference.loop import Report
from bagwise.inference.stride import FIRST_LENGTH, Stride
from bagwise.numerics.linalg import logdet
from bagwise.numerics.links import PROBIT

_SHORTENINGS = 30
_MOST_STUCK = 20  # sweeps in a row with messages that cannot be updated, after which there is no hope
_LEAST = 1e-6  # what 1 + vc·g2 and d must exceed
_ROUNDING = 1e-6  # what a log evidence may exceed its ceiling by
_NORM = 8  # Σ|x|⁸ adds over chunks, and its root lies within N^(1/8) of the largest |x|


class Sites(NamedTuple):
    """What EP remembers per instance, all (n, K): the messages, where they were, and where they want to go."""

    tau: Tensor
    nu: Tensor
    start: tuple[Tensor, Tensor]
    goal: tuple[Tensor, Tensor]


class Cavity(NamedTuple):
    """Mean and variance of f without the instance's own message, (4.1); ``sound`` where they exist."""

    mean: Tensor
    variance: Tensor
    sound: Tensor


def cavity(phi: Tensor, kappa: Tensor, tau: Tensor, nu: Tensor, belief: Belief) -> Cavity:
    """(4.1) with 1/ρ = w/(1 − τ̃w), which stays finite where an instance has no weight w = φᵀA⁻¹φ at all."""
    d = 1.0 + tau * kappa[:, None]
    weight = belief.spread(phi)
    remaining = 1.0 - tau / d * weight
    sound = remaining > 0
    safe = torch.where(sound, remaining, torch.ones_like(remaining))
    centre = phi @ belief.mean.to(phi.dtype)
    return Cavity((centre - nu / d * weight) / safe, weight / safe + kappa[:, None], sound)


def local_evidence(kappa: Tensor, tau: Tensor, nu: Tensor, without: Cavity) -> Tensor:
    """The terms of (4.4) that belong to single instances, (n, K)."""
    d = 1.0 + tau * kappa[:, None]
    m, v = without.mean, without.variance
    own = -0.5 * torch.log(d) + kappa[:, None] * nu.square() / (2.0 * d)
    e = 1.0 + tau * v
    return own - (-0.5 * torch.log(e) + (v * nu.square() + 2.0 * m * nu - tau * m.square()) / (2.0 * e))


def propose_step(chunk: Chunk, sites: Sites | None, belief: Belief) -> tuple[Sums, Sites]:
    """New messages by matching moments, (4.2)–(4.3), and the log evidence (4.4) of the old ones."""
    design = chunk.design
    if sites is None:
        zeros = torch.zeros(len(design.phi), belief.mean.shape[1], dtype=design.phi.dtype, device=design.phi.device)
        sites = Sites(zeros, zeros, (zeros, zeros), (zeros, zeros))
    without = cavity(design.phi, design.kappa, sites.tau, sites.nu, belief)
    log_z, goal, stuck = _matched(chunk, sites, without)
    moves, last = _between(sites[:2], goal), _between(sites.start, sites.goal)
    weights, own = chunk.evidence.weights, local_evidence(design.kappa, sites.tau, sites.nu, without)
    sums = {
        "log_z": weights.of_bags(log_z).sum(0) + weights.of_rows(own, design.segments).sum(0),
        **{name: weights.of_rows(value, design.segments).sum() for name, value in _measures(moves, last).items()},
        "stuck": stuck.sum(),
    }
    return sums, Sites(sites.tau, sites.nu, (sites.tau, sites.nu), goal)


def _between(old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return new[0] - old[0], new[1] - old[1]


def _measures(moves: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor]) -> Sums:
    """How far every message wants to move, and how far along its last move, (n, K) each."""
    (tau, nu), (last_tau, last_nu) = moves, last
    return {
        "moved": tau.abs().pow(_NORM) + nu.abs().pow(_NORM),
        "square": tau.square() + nu.square(),
        "along": tau * last_tau + nu * last_nu,
    }


def _matched(chunk: Chunk, sites: Sites, without: Cavity) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """log Z_b, the new messages, and which of them stay as they are because they cannot be computed."""
    mean = _shifted(chunk.design, without.mean)
    log_z, g1, g2 = chunk.evidence.slopes(mean, without.variance, chunk.design.segments)
    shrink = 1.0 + without.variance * g2
    usable = without.sound & (shrink > _LEAST)
    shrink = torch.where(usable, shrink, torch.ones_like(shrink))
    tau, nu = -g2 / shrink, (g1 - g2 * without.mean) / shrink
    return log_z, (torch.where(usable, tau, sites.tau), torch.where(usable, nu, sites.nu)), ~usable


def _shifted(design: Design, mean: Tensor) -> Tensor:
    """The mean of f from that of φᵀv."""
    return mean if design.offset is None else mean + design.offset[:, None]


def move_step(chunk: Chunk, sites: Sites, length: float) -> tuple[Sums, Sites]:
    """Go a part of the way from the start to the goal, and say what the messages then add to A and its shift."""
    phi, kappa = chunk.design.phi, chunk.design.kappa[:, None]
    (tau, nu), goal = sites.start, sites.goal
    lengths = torch.full_like(tau, length)
    for _ in range(_SHORTENINGS):
        broken = 1.0 + (tau + lengths * (goal[0] - tau)) * kappa <= _LEAST
        if not bool(broken.any()):
            break
        lengths = torch.where(broken, 0.5 * lengths, lengths)
    tau, nu = tau + lengths * (goal[0] - tau), nu + lengths * (goal[1] - nu)
    d = 1.0 + tau * kappa
    strength, shift = (chunk.evidence.weights.of_rows(part / d, chunk.design.segments) for part in (tau, nu))
    precision = torch.stack([phi.T @ (column[:, None] * phi) for column in strength.T])
    return {"precision": precision, "shift": phi.T @ shift}, sites._replace(tau=tau, nu=nu)


def stay_step(chunk: Chunk, sites: Sites, shared: None) -> tuple[Sums, Sites]:
    """What the remembered messages add to A and its shift."""
    here = sites.tau, sites.nu
    return move_step(chunk, sites._replace(start=here, goal=here), 0.0)


class ExpectationPropagation:
    """The state of the iteration; the messages stay with their chunks."""

    def __init__(
        self,
        chunks: Chunks,
        n_columns: int,
        n_labels: int,
        device: torch.device,
        length: float = FIRST_LENGTH,
    ) -> None:
        self._chunks, self._stride = chunks, Stride(length)
        self._belief = Belief.prior(n_columns, n_labels, device)
        self._factors = self._belief.inverse
        self._shift = torch.zeros_like(self._belief.mean)
        self._precision = torch.zeros_like(self._factors)
        self._stuck = 0
        self.log_evidence = torch.zeros(n_labels, dtype=torch.float64, device=device)

    def step(self) -> Report:
        """One parallel sweep over all messages."""
        sums = self._propose()
        residual = float((sums["moved"] + sums["stuck"]).pow(1.0 / _NORM))
        self._stride.adapt(float(sums["along"]), float(sums["square"]))
        self._move(self._stride.length)
        return Report(float(self.log_evidence.sum()), residual)

    def finish(self) -> None:
        """Bring ``log_evidence`` up to the last messages."""
        self._propose()

    def resume(self) -> None:
        """Start from the messages that the chunks remember."""
        self._update(self._chunks.sweep(stay_step, None))

    def plausible(self, ceiling: Tensor) -> bool:
        """Whether the log evidence is a number, and in no column above the highest that there can be."""
        return bool((self.log_evidence <= ceiling + _ROUNDING).all())

    @property
    def belief(self) -> Belief:
        """q(v) under the current messages, as everyone sees it."""
        return self._belief

    @property
    def totals(self) -> tuple[Tensor, Tensor]:
        """What the messages add to the precision of v, (K, R, R), and to its shift, (R, K)."""
        return self._precision, self._shift

    def posterior(self) -> GaussianPosterior:
        """q(v) under the current messages."""
        own = torch.arange(len(self._factors), device=self._factors.device)
        return GaussianPosterior(self._belief.mean, self._factors, own, PROBIT)

    def _propose(self) -> Sums:
        sums = self._chunks.sweep(propose_step, self._belief)
        bulk = -0.5 * logdet(self._factors) + 0.5 * (self._shift * self._belief.mean).sum(0)
        self.log_evidence = sums["log_z"] + bulk
        self._notice(int(sums["stuck"]))
        return sums

    def _notice(self, stuck: int) -> None:
        """A message without a cavity to be computed from stays as it is, which is not the same as having settled."""
        self._stuck = self._stuck + 1 if stuck else 0
        if self._stuck > _MOST_STUCK:
            raise NumericalError(f"the messages to {stuck} instances rest on others that cancel them")

    def _move(self, length: float) -> None:
        for _ in range(_SHORTENINGS):
            sums = self._chunks.sweep(move_step, length)
            try:
                self._update(sums)
            except NumericalError:
                length *= 0.5
            else:
                return
        raise NumericalError("expectation propagation found no step that keeps the precision positive definite.")

    def _update(self, sums: Sums) -> None:
        self._factors, self._belief = solved(sums["precision"], sums["shift"], attempts=1)
        self._precision, self._shift = sums["precision"], sums["shift"]


def pull_back(chunk: Chunk, tau: Tensor, nu: Tensor, belief: Belief) -> Tensor:
    """A function of a chunk's features whose gradient is that of the settled log evidence (4.4), messages held fixed.

    Where moments match, log Z_b and the normaliser of cavity × message have the same derivative in the cavity, and
    these cancel. What remains of d log Z is

        ⟨−½ (A⁻¹ + m mᵀ), dA⟩ + mᵀ d(Φᵀν̃) + d Σ [−½ log d + κν²/(2d)],   A = I + Φᵀ τ̃ Φ,

    one sum over instances, whatever holds the other chunks (theory section 14). Differentiable in φ and κ.
    """
    phi, kappa = chunk.design.phi, chunk.design.kappa[:, None]
    d = 1.0 + tau * kappa
    mean = belief.mean.to(phi.dtype)
    centre = phi @ mean
    squares = [(phi @ inverse.T).square().sum(1) for inverse in belief.inverse.to(phi.dtype)]
    square = torch.stack(squares, dim=1) + centre.square()
    own = -0.5 * torch.log(d) + kappa * nu.square() / (2.0 * d)
    each = own + nu / d * centre - 0.5 * tau / d * square
    total: Tensor = chunk.evidence.weights.of_rows(each, chunk.design.segments).sum()
    return total
