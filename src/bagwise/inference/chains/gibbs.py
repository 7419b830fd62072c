"""Block Gibbs sampling for probit instances under count evidence (theory section 3).

f is integrated out, m | v ~ N(φᵀv, s²) with s² = 1 + κ, and everything is in units of s: Φ̃ = diag(1/s) Φ, m̃ = m/s. Then

    v | m ~ N(w, A⁻¹),   A = I + Φ̃ᵀΦ̃,   w = A⁻¹ Φ̃ᵀ m̃                                                       (3.1)
    m̃_b | v ∝ ψ_b(#{m̃ > 0}) Π N(m̃_i; z_i, 1),   z = Φ̃v                                                     (3.2)

A never changes and is factored once; a sweep needs z = Φ̃v, a draw of every m̃, and Φ̃ᵀm̃, which adds up over bags. Whole
bags are drawn at once, so the chain is a chain in v alone. All chains of all label columns run side by side as columns:
column k C + c is chain c of label k.

Random numbers. Sweep t of a model with seed s takes its numbers from the Philox generator with key s and counter t
(``Randomness``): two uniforms for every instance in the order of the bags, and one normal for every weight. A chunk
takes the rows of its own instances. So a chain does not depend on how bags are cut into chunks, and sweep t can be
repeated without those before it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bagwise.bag_models.counts import ChunkEvidence, Tabled
from bagwise.exceptions import NumericalError
from bagwise.gp.posterior import SamplePosterior
from bagwise.inference.chunks import Chunk, Chunks, Step, Sums
from bagwise.inference.loop import Report
from bagwise.inference.mean_field import Patterns, gram_step, patterns_of
from bagwise.numerics.counting.programme import draw_with_normaliser
from bagwise.numerics.linalg import cholesky, whiten
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log1mexp, log_ndtr, ndtri_exp

SCHEMES = ("block", "single-site")
_SMALLEST = 2.0**-54  # half the spacing of the uniforms: stands for the rare exact 0
_VANISHED = -1e-290  # an all-negative exponent S above this has lost its digits to underflow


class Sweep(NamedTuple):
    """What everyone knows in one sweep: v of every chain (R, S), and uniforms for every instance (N, S)."""

    weights: Tensor
    signs: Tensor  # decide which instances are positive
    values: Tensor  # decide how far they are from zero


@dataclass(frozen=True)
class DrawPlan:
    """What a chunk remembers: its evidence, spread over chains once; ``m`` (n, S) for the single-site scheme only."""

    n_chains: int
    plain: bool  # whether there is any plain label
    positive: Tensor  # (b, S) bags with the plain label 1
    negative: Tensor  # (b, S) bags with the plain label 0
    positive_rows: Tensor  # (n, S)
    unstated: Tensor | None  # (n, S) instances about which nothing is known, None where there are none
    starts: Tensor  # (b,) first row of every bag
    ends: Tensor  # (b,) last row of every bag
    number: Tensor  # (n, 1) of the bag, as a floating point number
    even: Tensor  # (n, 1) one over the size of the bag
    m: Tensor | None = None


def plan_of(evidence: ChunkEvidence, segments: Segments, n_chains: int) -> DrawPlan:
    """The evidence of a chunk, every label column repeated for each of its chains."""
    labels = evidence.labels.repeat_interleave(n_chains, dim=1)
    informed = torch.stack([evidence.informed(k, segments) for k in range(evidence.labels.shape[1])], dim=1)
    unstated = ~informed.repeat_interleave(n_chains, dim=1)
    return DrawPlan(
        n_chains,
        plain=bool((~torch.isnan(labels)).any()),
        positive=labels == 1,
        negative=labels == 0,
        positive_rows=segments.spread(labels == 1),
        unstated=unstated if bool(unstated.any()) else None,
        starts=segments.offsets[:-1],
        ends=segments.offsets[1:] - 1,
        number=segments.index[:, None].to(torch.float64),
        even=segments.spread(1.0 / segments.sizes.to(torch.float64))[:, None],
    )


# ---------------------------------------------------------------- the draw of m given v, (3.2)


def truncated(z: Tensor, side: Tensor, log_mass: Tensor, uniforms: Tensor) -> Tensor:
    """z + side · cdf⁻¹(u · mass), in logs, so that neither tail is ever rejected or rounded away.

    Below zero: side 1, mass cdf(−z). Above zero: side −1, mass cdf(z). Free: side 1, mass 1.
    """
    return z + side * ndtri_exp(torch.log(uniforms) + log_mass)


def first_positive(
    log_negative: Tensor, z: Tensor, segments: Segments, plan: DrawPlan, signs: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows that are or come after the first positive of a bag known to hold one, (n, S), and log Z_b (b, S).

    With T_i = Σ_{j<=i} log cdf(−z_j) and S = T_n, P(first positive <= i) = (1 − e^{T_i}) / (1 − e^S). Inverting this at
    u gives the first i with T_i <= log(1 − u (1 − e^S)). Both sides are divided by S: T_i/S is a running share of the
    bag, whose digits survive a cumulative sum over all bags, and the right side tends to u as S vanishes. Where S
    underflows, shares are cdf(z_i) / Σ cdf(z_j), from logarithms.
    """
    total = segments.sum(log_negative)
    u = signs.index_select(0, plan.starts)
    cut = torch.log1p(u * torch.expm1(total)) / total
    share = log_negative / segments.spread(total)
    vanished = plan.positive & (total > _VANISHED)
    if bool(vanished.any()):
        tail = log_ndtr(z)
        cut = torch.where(vanished, u, cut)
        part = torch.exp(tail - segments.spread(segments.logsumexp(tail)))
        share = torch.where(segments.spread(vanished), part, share)
    share = torch.where(plan.positive_rows, share, plan.even)  # where shares are not used, they still add up to one
    reached = share.cumsum(0) - plan.number >= segments.spread(cut)
    reached[plan.ends] = True  # the shares of a bag add up to one, but for rounding
    return reached, label_evidence(total, z, segments, plan)


def label_evidence(total: Tensor, z: Tensor, segments: Segments, plan: DrawPlan) -> Tensor:
    """log Z_b (b, S) of plain labels from S = Σ log cdf(−z): S, log(1 − e^S), or 0 where there is no label.

    Where S underflows, 1 − e^S is Σ cdf(z_i) to all digits.
    """
    some_positive = log1mexp(total)
    vanished = plan.positive & (total > _VANISHED)
    if bool(vanished.any()):
        some_positive = torch.where(vanished, segments.logsumexp(log_ndtr(z)), some_positive)
    return torch.where(plan.positive, some_positive, torch.where(plan.negative, total, torch.zeros_like(total)))


def draw_by_labels(z: Tensor, segments: Segments, plan: DrawPlan, sweep: Sweep) -> tuple[Tensor, Tensor]:
    """m̃ (n, S) of bags with plain labels, and Σ log Z_b (S,).

    Negative bag: every instance below zero. Positive bag: below zero before the first positive, above zero there, free
    after it. Rows without a plain label are drawn freely and are not meant to be used.
    """
    log_negative = log_ndtr(-z)
    reached, log_z = first_positive(log_negative, z, segments, plan, sweep.signs)
    before = torch.roll(reached, 1, dims=0)
    before[plan.starts] = False
    first = plan.positive_rows & reached & ~before
    free = plan.positive_rows & reached
    log_mass = torch.where(free, torch.zeros_like(z), log_negative)
    log_mass[first] = log_ndtr(z[first])
    side = torch.where(first, -torch.ones_like(z), torch.ones_like(z))
    return truncated(z, side, log_mass, sweep.values), log_z.sum(0)


def draw_by_table(z: Tensor, part: Tabled, signs: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """m̃ (m, C) of bags with any count potential, known instances included, and Σ log Z_b (C,).

    The count programme draws who is positive; given that, every m̃ is a truncated normal.
    """
    log_p, log_q = log_ndtr(z.T), log_ndtr(-z.T)
    allowed = log_p.masked_fill(part.known == 0, -torch.inf), log_q.masked_fill(part.known == 1, -torch.inf)
    labels, log_z = draw_with_normaliser(*allowed, part.potentials, signs.T)
    side = 1.0 - 2.0 * labels.to(z.dtype)
    return truncated(z, side.T, torch.where(labels, log_p, log_q).T, values), log_z.sum(-1)


def draw_block(z: Tensor, chunk: Chunk, plan: DrawPlan, sweep: Sweep) -> tuple[Tensor, Tensor]:
    """m̃ (n, S) of a chunk, zero where nothing is known, and Σ log Z_b (S,); ``sweep`` holds the rows of the chunk."""
    m, log_z = torch.zeros_like(z), z.new_zeros(z.shape[1])
    if plan.plain:
        m, log_z = draw_by_labels(z, chunk.design.segments, plan, sweep)
    for column, part in enumerate(chunk.evidence.tabled):
        if part is not None:
            chains = slice(column * plan.n_chains, (column + 1) * plan.n_chains)
            own = [values[part.rows, chains] for values in (z, sweep.signs, sweep.values)]
            m[part.rows, chains], added = draw_by_table(own[0], part, *own[1:])
            log_z[chains] += added
    if plan.unstated is not None:
        m.masked_fill_(plan.unstated, 0.0)
    return m, log_z


# ---------------------------------------------------------------- steps


def prepare_step(chunk: Chunk, remembered: object, shared: tuple[Patterns, int]) -> tuple[Sums, DrawPlan]:
    """Φ̃ᵀΦ̃ and the number of informed instances for every pattern of missing evidence; the plan of the chunk."""
    patterns, n_chains = shared
    plan = plan_of(chunk.evidence, chunk.design.segments, n_chains)
    sums, _ = gram_step(chunk, None, patterns)
    seen = [chunk.evidence.informed(column, chunk.design.segments).sum() for column in patterns.first]
    return {"gram": sums["gram"], "rows": torch.stack(seen)}, plan


def block_step(chunk: Chunk, plan: DrawPlan, sweep: Sweep) -> tuple[Sums, DrawPlan]:
    """Draw every m̃ of the chunk given v; answer with what v needs to know of them."""
    z, own = scores_of(chunk, sweep)
    return answer_of(chunk, *draw_block(z, chunk, plan, own)), plan


def single_site_step(chunk: Chunk, plan: DrawPlan, sweep: Sweep) -> tuple[Sums, DrawPlan]:
    """As ``block_step``, but one instance of every bag after the other, given the signs of the others (section 3.2).

    In a positive bag an instance must be above zero if all others are below, and is free otherwise. The published
    scheme: it samples the same law, and is here to be compared with. Plain labels only.
    """
    z, own = scores_of(chunk, sweep)
    if plan.m is None:
        return _remembered(chunk, plan, *draw_block(z, chunk, plan, own))
    m, positive = plan.m.clone(), chunk.design.segments.sum((plan.m > 0).to(z.dtype))
    log_negative, log_positive = log_ndtr(-z), log_ndtr(z)
    for position in range(int(chunk.design.segments.sizes.max())):
        bags = torch.nonzero(chunk.design.segments.sizes > position)[:, 0]
        rows = plan.starts[bags] + position
        others = positive[bags] - (m[rows] > 0).to(z.dtype)
        forced, free = plan.positive[bags] & (others == 0), plan.positive[bags] & (others > 0)
        log_mass = torch.where(forced, log_positive[rows], log_negative[rows]).masked_fill(free, 0.0)
        m[rows] = truncated(z[rows], 1.0 - 2.0 * forced.to(z.dtype), log_mass, own.values[rows])
        positive[bags] = others + (m[rows] > 0).to(z.dtype)
    if plan.unstated is not None:
        m.masked_fill_(plan.unstated, 0.0)
    log_z = label_evidence(chunk.design.segments.sum(log_negative), z, chunk.design.segments, plan)
    return _remembered(chunk, plan, m, log_z.sum(0))


def scores_of(chunk: Chunk, sweep: Sweep) -> tuple[Tensor, Sweep]:
    """z = Φ̃v (n, S) in double precision, and the chunk's own rows of the uniforms."""
    phi, rows = chunk.design.phi, slice(chunk.first, chunk.first + len(chunk.design.phi))
    # A few chains against many rows: the product is faster with the chains first.
    z = (sweep.weights.to(phi.dtype).T @ phi.T).T.contiguous().to(torch.float64)
    return z, sweep._replace(signs=sweep.signs[rows], values=sweep.values[rows])


def answer_of(chunk: Chunk, m: Tensor, log_z: Tensor) -> Sums:
    """What the draw of v needs to know of the m̃ of a chunk, and Σ log Z_b."""
    pull = (m.T.to(chunk.design.phi.dtype) @ chunk.design.phi).T
    return {"pull": pull, "square": m.square().sum(0), "log_likelihood": log_z}


def _remembered(chunk: Chunk, plan: DrawPlan, m: Tensor, log_z: Tensor) -> tuple[Sums, DrawPlan]:
    return answer_of(chunk, m, log_z), replace(plan, m=m)


STEPS: dict[str, Step] = {"block": block_step, "single-site": single_site_step}


# ---------------------------------------------------------------- the draw of v given m, (3.1) and (3.3)


class Randomness:
    """The random numbers of every sweep, by its number."""

    def __init__(self, seed: int, n_rows: int, shape: tuple[int, int], device: torch.device) -> None:
        self._seed, self._n_rows, self._shape, self.device = seed, n_rows, shape, device

    def generator(self, sweep: int) -> np.random.Generator:
        """A stream of its own for every sweep; sweep 0 is for the start."""
        return np.random.Generator(np.random.Philox(key=self._seed, counter=[0, 0, 0, sweep]))

    def uniforms(self, stream: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Two uniforms in (0, 1) for every instance and chain."""
        drawn = stream.random((2, self._n_rows, self._shape[1]))
        signs, values = torch.from_numpy(np.maximum(drawn, _SMALLEST, out=drawn)).to(self.device)
        return signs, values

    def normals(self, stream: np.random.Generator) -> Tensor:
        """A standard normal for every weight and chain, (R, S)."""
        return torch.from_numpy(stream.standard_normal(self._shape)).to(self.device)


class Conditional:
    """v | m ~ N(w, A⁻¹) for every chain; A depends on which instances are informed, and on nothing else."""

    def __init__(self, gram: Tensor, rows: Tensor, patterns: Patterns, n_chains: int) -> None:
        eye = torch.eye(gram.shape[-1], dtype=torch.float64, device=gram.device)
        self.factors = torch.stack([cholesky(eye + part, what="precision").lower for part in gram])
        self.factor_of = patterns.of_column
        self._inverse = whiten(self.factors, eye.expand_as(self.factors)).contiguous()
        self._of_chain = patterns.of_column.repeat_interleave(n_chains)
        self._half_rows = 0.5 * rows[self._of_chain].cpu().numpy()

    def draw(
        self, pull: Tensor, square: Tensor, normals: Tensor, stream: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """w and a draw of v, both (R, S), from Φ̃ᵀm̃ and |m̃|²; with a ``stream`` m̃ is rescaled first, (3.3)."""
        half = self._times(pull, transposed=False)
        if stream is not None:
            half = half * self._scale(square - half.square().sum(0), stream)
        return self._times(half, transposed=True), self._times(half + normals, transposed=True)

    def _scale(self, q: Tensor, stream: np.random.Generator) -> Tensor:
        """c with c² ~ Gamma(N/2, rate q/2), q = |m̃|² − |C⁻¹Φ̃ᵀm̃|²: (3.3).

        ψ looks at signs only, so along the ray c m̃ the target is c^(N−1) exp(−c² q/2) dc.
        """
        drawn = torch.from_numpy(stream.standard_gamma(np.maximum(self._half_rows, 0.5))).to(q.device)
        informed = torch.from_numpy(self._half_rows > 0).to(q.device)
        return torch.where(informed, torch.sqrt(2.0 * drawn / torch.where(informed, q, torch.ones_like(q))), 1.0)

    def _times(self, columns: Tensor, *, transposed: bool) -> Tensor:
        """C⁻¹ x or C⁻ᵀ x, every column with the factor of its pattern."""
        inverse = self._inverse.mT if transposed else self._inverse
        if len(inverse) == 1:
            return inverse[0] @ columns
        own = [inverse[int(pattern)] @ column for pattern, column in zip(self._of_chain, columns.T, strict=True)]
        return torch.stack(own, dim=1)


class Gibbs:
    """The state of all chains: v after ``done`` sweeps, and what the last sweep saw."""

    names: tuple[str, ...] = ("log_likelihood", "norm_v")

    def __init__(
        self,
        chunks: Chunks,
        observed: Tensor,
        *,
        n_rows: int,
        n_chains: int = 4,
        seed: int = 0,
        scheme: str = "block",
        rescale: bool = True,
    ) -> None:
        patterns = patterns_of(observed)
        sums = chunks.sweep(prepare_step, (patterns, n_chains))
        self._chunks, self._step, self._rescale = chunks, STEPS[scheme], rescale
        self.conditional = Conditional(sums["gram"], sums["rows"], patterns, n_chains)
        shape = (sums["gram"].shape[-1], observed.shape[1] * n_chains)
        self._random = Randomness(seed, n_rows, shape, observed.device)
        self.n_chains, self.done = n_chains, 0
        # Draws of the prior: starts more spread out than any posterior, so that R-hat can see chains that disagree.
        self.weights = self._random.normals(self._random.generator(0))
        self.seen, self.means = self.weights, torch.zeros_like(self.weights)
        self.log_likelihood = torch.zeros(shape[1], dtype=torch.float64, device=observed.device)

    def sweep(self) -> Report:
        """m given v, then v given m. Afterwards ``seen`` is the v that the sweep began with, ``log_likelihood`` (S,) is
        log P(evidence | seen), ``means`` is w of the m drawn given ``seen``, and ``weights`` is the next v."""
        stream = self._random.generator(self.done + 1)
        shared = Sweep(self.weights, *self._random.uniforms(stream))
        sums = self._chunks.sweep(self._step, shared)
        normals = self._random.normals(stream)
        means, weights = self.conditional.draw(sums["pull"], sums["square"], normals, stream if self._rescale else None)
        self.seen, self.weights, self.means = self.weights, weights, means
        self.log_likelihood = sums["log_likelihood"]
        self.done += 1
        return Report(float(self.log_likelihood.sum()) / self.n_chains, 1.0)

    @property
    def state(self) -> Tensor:
        """All that the next sweep needs: v."""
        return self.weights

    def watched(self) -> Tensor:
        """(2, S) the quantities in ``names``, of ``seen``."""
        return torch.stack([self.log_likelihood, torch.linalg.vector_norm(self.seen, dim=0)])

    def posterior(self, weights: Tensor, means: Tensor) -> SamplePosterior:
        """From v and w of many sweeps, each (K, chains, draws, R)."""
        return SamplePosterior(weights, means, self.conditional.factors, self.conditional.factor_of)

    def fingerprint(self) -> bytes:
        """Equal for equal precisions and starts; the start holds the seed."""
        return bytes(self.conditional.factors.cpu().numpy().tobytes() + self.weights.cpu().numpy().tobytes())

    def resume(self, weights: Tensor, done: int) -> None:
        """Go on from v after ``done`` sweeps."""
        if weights.shape != self.weights.shape or not bool(torch.isfinite(weights).all()):
            raise NumericalError(f"cannot go on from weights of shape {tuple(weights.shape)} that are not all finite.")
        self.weights, self.done = weights.to(self.weights.device), done
