"""Expectation propagation with one site per bag, for labels in large bags (theory section 13.3).

A message to every instance is a poor family for a large bag. Seen as a whole a labelled bag is one number: with
S(v) = Σ log cdf(−φᵢᵀv/sᵢ), sᵢ² = 1 + κᵢ, and g(v) = −ndtri(e^S) its label has probability cdf(±g(v)), exactly. Made
linear around the present q(v) (posterior linearisation), g(v) ≈ aᵀv + c + N(0, ω), the bag is an ordinary probit
observation of one row,

    cdf(±(aᵀv + c)/√(1 + ω)),                                                                              (13.2)

and expectation propagation over such rows is ordinary too. So the two alternate: rows from q(v), q(v) from rows. Bags
that say something else than a label keep their messages to single instances; both add to one precision.
"""

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.bags_as_rows import BagRows, Pooled, labelled, pooled_chunk, rows_of_bags
from bagwise.inference.belief import Belief
from bagwise.inference.chunks import Chunk, Chunks, Step, Sums
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import Report
from bagwise.numerics.blocks import in_stretches
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log_at_least_one, log_negative_side, log_pdf, ndtri_exp

POINTS = 48  # at which g is looked at
BLENDING = (0.6, 0.3, 0.15)  # how far rows follow the newest linearisation; less where they go round in circles
_SWEEPS = 6  # at most, over the sites of all bags between two linearisations …
_QUIET = 0.3  # … which end where sites want to move by this share of what they wanted to at first
_LENGTH = 0.8  # of the first of them
_FADING = 0.7  # of what directions still follow, from look to look
_RUN = 32_768  # rows that a processor looks at together
_PATIENCE, _FALL = 8, 0.7  # over so many rounds the residual must fall by so much, or less is followed
MANY_ROWS = 50_000  # of which less is followed only if the mean of v goes to and fro: rounds that drift are too dear


class _Score(torch.autograd.Function):
    """g = −ndtri(e^S) from S < 0, with dg/dS = −exp(S − log pdf(g)); right in both tails."""

    @staticmethod
    def forward(ctx: Any, S: Tensor) -> Tensor:
        """The smaller of P(negative) = e^S and P(positive) = 1 − e^S decides which quantile is taken."""
        mostly_negative = -math.log(2.0) < S
        smaller = torch.where(mostly_negative, log_at_least_one(torch.log(-S)), S)
        quantile = ndtri_exp(smaller)
        g = torch.where(mostly_negative, quantile, -quantile)
        ctx.save_for_backward(S, g)
        return g

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """By dg/dS."""
        S, g = ctx.saved_tensors
        return -gradient * torch.exp(S - log_pdf(g))


def linearise(phi: Tensor, kappa: Tensor, segments: Segments, draws: Tensor) -> BagRows:
    """The bags as rows, g being made linear by its average slope over draws of v (R, S); differentiable throughout.

    ∂g/∂fᵢ = exp(S − log pdf(g)) h(−zᵢ)/sᵢ;  a = Σ E[∂g/∂fᵢ] φᵢ,  c = E g − aᵀ E v,  ω = E (g − E g − aᵀ(v − E v))².
    """
    s = torch.sqrt(1.0 + kappa)
    z = (phi @ draws) / s[:, None]
    log_negative = in_stretches(log_negative_side, z)
    S = segments.sum(log_negative)
    g: Tensor = _Score.apply(S)  # type: ignore[no-untyped-call]
    slope = in_stretches(_mean_slope, segments.spread(S - log_pdf(g)), z, log_negative) / s
    rows = segments.sum(slope[:, None] * phi)
    centre = draws.mean(1)
    expected = g.mean(1)
    noise = (g - expected[:, None] - rows @ (draws - centre[:, None])).square().mean(1)
    scale = torch.rsqrt(1.0 + noise)
    return BagRows(scale[:, None] * rows, scale * (expected - rows @ centre))


def in_runs(answer: Callable[..., tuple[Tensor, ...]], design: Design, *of_bags: Tensor) -> tuple[Tensor, ...]:
    """What a function answers to every bag; on a processor to some bags of a large chunk at a time, which is faster.

    (It works on a chunk of very many rows as if it were several: their temporary results stay in its memory.)
    """
    if design.phi.device.type != "cpu" or len(design.phi) <= 2 * _RUN:
        return answer(design, *of_bags)
    parts = [answer(some, *(values[bags] for values in of_bags)) for bags, some in design.runs(_RUN)]
    return tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))


def _mean_slope(log_weight: Tensor, z: Tensor, log_negative: Tensor) -> Tensor:
    """The mean over draws of weight · h(−z), per row."""
    return torch.exp(log_weight + log_pdf(z) - log_negative).mean(1)


@lru_cache(maxsize=8)  # every kernel that is judged asks for the same ones
def standard_points(dimension: int, seed: int) -> Tensor:
    """(dimension, POINTS) quasi-random normal numbers, centred and scaled in every dimension."""
    engine = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    drawn = torch.from_numpy(engine.random_base2(math.ceil(math.log2(POINTS)))[:POINTS].T.copy())
    return standardised(torch.special.ndtri(drawn.clamp(2.0**-32, 1.0 - 2.0**-32)))


def standardised(points: Tensor) -> Tensor:
    """Points (R, S) centred and scaled in every dimension."""
    centred = points - points.mean(1, keepdim=True)
    scaled: Tensor = centred / centred.square().mean(1, keepdim=True).sqrt()
    return scaled


def draws_of(belief: Belief, points: Tensor) -> Tensor:
    """m + C⁻ᵀ ξ for the points ξ, (R, S), of a belief in one label column."""
    return belief.mean[:, :1] + belief.inverse[0].T @ points


class Look(NamedTuple):
    """From where to look at the bags, with which points (R, S), and how far to follow what is seen there."""

    belief: Belief
    points: Tensor
    share: float


def pool_step(chunk: Chunk, pooled: Pooled | None, look: Look) -> tuple[Sums, Pooled]:
    """Bags as rows at the present q(v)."""
    bags, seen = labelled(chunk), labelled_design(chunk)
    draws = draws_of(look.belief, look.points).to(seen.phi.dtype)
    new = BagRows(*in_runs(lambda some: linearise(some.phi, some.kappa, some.segments, draws), seen))
    rows = new if pooled is None else pooled.bag_rows().blended(new, look.share)
    sites = None if pooled is None else pooled.sites
    seen_rows = {"rows": torch.full((), float(len(seen.phi)), device=seen.phi.device)}
    return seen_rows, Pooled(pooled_chunk(chunk, bags, rows), sites, bags.n_bags)


def labelled_design(chunk: Chunk) -> Design:
    """The bags of a chunk that have a plain label."""
    bags = labelled(chunk)
    return chunk.design if bags.all else design_of_bags(chunk.design, bags.which)


def design_of_bags(design: Design, chosen: Tensor) -> Design:
    """The bags of a chunk that are chosen, (b,)."""
    if bool(chosen.all()):
        return design
    rows = design.segments.spread(chosen)
    sizes = design.segments.sizes[chosen]
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Design(design.phi[rows], design.kappa[rows], Segments(offsets))


class BagPropagation:
    """The state of the iteration for one label column; rows and sites stay with their chunks."""

    def __init__(self, chunks: Chunks, n_columns: int, device: torch.device, seed: int) -> None:
        self._chunks = chunks
        self.points = standard_points(n_columns, seed).to(device)
        self._engine = ExpectationPropagation(rows_of_bags(chunks, device), n_columns, 1, device, _LENGTH)
        self._residuals: list[float] = []
        self._moves: list[Tensor] = []
        self._n_rows = 0.0
        self._share, self._begun, self._pool = 0, False, cast(Step, pool_step)
        self._then: Step | None = None
        self._follow, self._fading = 1.0, 1.0

    def look_by(self, pool: Step, then: Step) -> None:
        """See bags in another way from now on: rows by ``pool``, and what they then state by ``then``.

        Rows follow less and less, so that they come to rest wherever they go.
        """
        self._pool, self._then, self._share, self._residuals = pool, then, 0, []
        self._moves, self._fading = [], _FADING

    def step(self) -> Report:
        """One linearisation and a few sweeps over the sites; the residual is how far the mean of v moved."""
        before = self.belief.mean
        look = Look(self.belief, self.points, self._follow * BLENDING[self._share])
        self._n_rows = float(self._chunks.sweep(self._pool, look).get("rows", self._n_rows))
        self._follow *= self._fading
        if self._begun:
            self._engine.resume()
        self._begun = True
        if self._then is not None:
            self._chunks.sweep(self._then, Look(self.belief, self.points, 1.0))
        self._move_sites()
        self._moves = [*self._moves[1 - _PATIENCE :], self.belief.mean - before]
        residual = float(self._moves[-1].abs().max())
        self._adapt(residual)
        return Report(float(self.log_evidence.sum()), residual)

    def _move_sites(self) -> None:
        """Sweep over the sites until the rows have had most of their effect on them; large bags take longer."""
        first = self._engine.step().residual
        for _ in range(_SWEEPS - 1):
            if self._engine.step().residual <= _QUIET * first:
                break

    def resume(self, belief: Belief) -> None:
        """Start from the rows and sites that the chunks remember, looking from another belief at first."""
        self._chunks.sweep(self._pool, Look(belief, self.points, 1.0))
        self._engine.resume()
        self._begun = True

    def finish(self) -> None:
        """Bring ``log_evidence`` up to the last sites."""
        self._engine.finish()

    def draws(self) -> Tensor:
        """Where g is looked at, (R, S)."""
        return draws_of(self.belief, self.points)

    def totals(self) -> tuple[Tensor, Tensor]:
        """What all rows and instances add to the precision of v, (R, R), and to its shift, (R,)."""
        precision, shift = self._engine.totals
        return precision[0], shift[:, 0]

    @property
    def belief(self) -> Belief:
        """q(v)."""
        return self._engine.belief

    @property
    def log_evidence(self) -> Tensor:
        """(4.4) over the sites of the bags, (1,)."""
        return self._engine.log_evidence

    def plausible(self, ceiling: Tensor) -> bool:
        """Whether the log evidence is a number, and not above the highest that there can be."""
        return self._engine.plausible(ceiling)

    def posterior(self) -> GaussianPosterior:
        """q(v) under the current sites."""
        return self._engine.posterior()

    def _adapt(self, residual: float) -> None:
        """Follow less of what is seen when the residual has hardly fallen for a while.

        That ends circles. A mean that drifts one way only gets there later; of few rows that costs nothing.
        """
        if not math.isfinite(residual):
            raise NumericalError("the linearised bags left the range of floating point numbers")
        self._residuals.append(residual)
        recent, earlier = self._residuals[-_PATIENCE:], self._residuals[:-_PATIENCE]
        if earlier and min(recent) >= _FALL * min(earlier) and self._share < len(BLENDING) - 1 and not self._drifts():
            self._share += 1
            self._residuals = [residual]

    def _drifts(self) -> bool:
        """Whether there are many rows and none of the last moves turned back."""
        return self._n_rows > MANY_ROWS and not turned_back(self._moves)


def turned_back(moves: list[Tensor]) -> bool:
    """Whether one of some moves in a row went against the one before it."""
    return any(bool((one * other).sum() < 0) for one, other in itertools.pairwise(moves))


def joined_posterior(columns: list[GaussianPosterior]) -> GaussianPosterior:
    """The posteriors of several label columns as one."""
    order = torch.arange(len(columns), device=columns[0].mean.device)
    mean = torch.cat([column.mean for column in columns], dim=1)
    return GaussianPosterior(mean, torch.cat([column.factors for column in columns]), order, columns[0].link)
