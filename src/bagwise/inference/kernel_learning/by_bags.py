"""The log evidence of expectation propagation with one site per bag (theory section 13.3), as a judge of kernels.

Rows that stand for bags are made at q(v), and q(v) is made of these rows: x = (rows, offsets, sites) is a fixed point
of a map Φ(x, θ) that depends on the kernel θ. The evidence E(x) is stationary in the sites, but not in the rows, so its
total derivative takes the motion of the fixed point along:

    dE/dθ = λᵀ ∂Φ/∂θ,    λ = ∂E/∂x + (∂Φ/∂x)ᵀ λ                                                             (14.1)

λ is found by GMRES; each of its products is one backward pass through the linearisation of the bags, and a dozen are
enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.inference.bag_propagation import BagPropagation, labelled_design, linearise
from bagwise.inference.bags_as_rows import BagRows, Pooled
from bagwise.inference.belief import Belief
from bagwise.inference.chunks import Chunk, HeldChunks, PiecesOfColumn, Sums, Told
from bagwise.inference.kernel_learning.rows import LearningRows
from bagwise.inference.loop import iterate
from bagwise.numerics.gmres import gmres
from bagwise.numerics.linalg import whiten
from bagwise.numerics.special import hazard, log_ndtr, log_pdf

ROUNDS, TOLERANCE = 100, 2e-3
ROUGH = 0.05  # nats by which the evidence is off where it has settled so far
_ADJOINT_TOLERANCE, _ADJOINT_STEPS = 1e-2, 40
_KEPT_CHUNKS = 4  # of which the backward pass keeps what it needs; of more it is computed again


class Fixed(NamedTuple):
    """A settled point: bags as rows, their sites, and what other evidence adds to the precision."""

    rows: Tensor  # (B, R)
    offset: Tensor  # (B,)
    tau: Tensor  # (B,)
    nu: Tensor  # (B,)

    def flat(self) -> Tensor:
        """All of it as one vector."""
        return torch.cat([part.reshape(-1) for part in self])

    def like(self, vector: Tensor) -> "Fixed":
        """A vector as such a point."""
        sizes = [part.numel() for part in self]
        parts = torch.split(vector, sizes)
        return Fixed(*(new.reshape(part.shape) for new, part in zip(parts, self, strict=True)))

    def cut(self, counts: list[int]) -> list[BagRows]:
        """Rows and offsets of so many bags each."""
        parts = zip(torch.split(self.rows, counts), torch.split(self.offset, counts), strict=True)
        return [BagRows(*pair) for pair in parts]


class _Problem(NamedTuple):
    """What the map Φ needs besides the point."""

    counts: list[int]  # bags of every chunk
    signs: Tensor  # (B,) ±1
    noise: float  # probability that a label is wrong
    times: Tensor  # (B,) how many times a bag counts
    points: Tensor  # (R, S)
    precision: Tensor  # (R, R) what is in A besides the rows of the bags …
    shift: Tensor  # (R,) … and in the shift


class ByBags:
    """Judges the kernel of some rows whose bags are labelled, once for every label column."""

    def __init__(self, rows: LearningRows, ceiling: Tensor, seed: int) -> None:
        self._rows, self._ceiling, self._seed = rows, ceiling, seed
        self._remembered: dict[int, tuple[Belief, list[Any]]] = {}

    def __call__(self) -> float:
        """log Z at the present kernel, summed over label columns; its gradient is left in the parameters."""
        chunks = self._rows.chunks()
        total, draws, pulls = 0.0, [], []
        for column in range(len(self._ceiling)):
            engine, held = self._settled(chunks, column)
            total += float(engine.log_evidence.sum())
            draws.append(engine.draws())
            pulls.append(self._pulls(chunks, column, engine, held))
        self._rows.differentiate(_pulled, draws, each=list(zip(*pulls, strict=True)))
        return total

    def value(self) -> float:
        """log Z at the present kernel without its gradient, which takes most of the time."""
        chunks = self._rows.chunks()
        columns = range(len(self._ceiling))
        return sum(float(self._settled(chunks, column)[0].log_evidence.sum()) for column in columns)

    def _settled(self, chunks: HeldChunks, column: int) -> tuple[BagPropagation, HeldChunks]:
        """Rows and sites at the present kernel, from the last ones or, should that fail, from nothing."""
        last = self._remembered.get(column)
        for start in (last, None) if last is not None else (None,):
            held = chunks.through(PiecesOfColumn(column))
            if start is not None:
                held.remembered = list(start[1])
            engine = self._settle(held, column, None if start is None else start[0])
            if engine is not None:
                self._remembered[column] = engine.belief, held.for_others()
                return engine, held
        raise NumericalError("expectation propagation does not settle at this kernel.")

    @torch.no_grad()
    def _settle(self, held: HeldChunks, column: int, belief: Belief | None) -> BagPropagation | None:
        try:
            engine = BagPropagation(held, self._rows.n_columns, self._rows.device, self._seed)
            if belief is not None:
                engine.resume(belief)
            trace = iterate(engine.step, name="log evidence", max_iter=ROUNDS, tol=TOLERANCE)
            engine.finish()
        except NumericalError:
            return None
        if trace.interrupted:
            raise KeyboardInterrupt
        return engine if trace.converged and engine.plausible(self._ceiling[[column]]) else None

    def _pulls(self, chunks: HeldChunks, column: int, engine: BagPropagation, held: HeldChunks) -> list[BagRows]:
        """λ of the rows and offsets of every chunk."""
        point, problem = _fixed_point(held.recalled(_pooled_bags), engine)
        seen = chunks.through(_LabelledBags(column))
        kept = seen.in_this_process and self._rows.n_chunks <= _KEPT_CHUNKS
        return _adjoint(point, problem, seen, kept=kept).cut(problem.counts)


def _pulled(chunk: Chunk, _: None, told: Told) -> Tensor:
    """Σ λᵀ Φ(x, θ) of a chunk over label columns, whose gradient in θ is what the chunk adds to (14.1)."""
    parts = [
        _column_pulled(PiecesOfColumn(column)(chunk), draws, adjoint)
        for column, (draws, adjoint) in enumerate(zip(told.shared, told.own, strict=True))
    ]
    return torch.stack(parts).sum()


def _column_pulled(chunk: Chunk, draws: Tensor, adjoint: BagRows) -> Tensor:
    found = _linearised(labelled_design(chunk), draws)
    return (adjoint.rows * found.rows).sum() + (adjoint.offset * found.offset).sum()


class _PooledBags(NamedTuple):
    """The labelled bags of a chunk at a settled point."""

    point: Fixed
    labels: Tensor  # (b,)
    times: Tensor  # (b,)
    noise: float


def _pooled_bags(pooled: Pooled) -> _PooledBags:
    evidence = pooled.chunk.evidence
    parts = (*pooled.bag_rows(), *pooled.bag_sites())
    labels = evidence.labels[: pooled.n_labelled, 0].double()
    return _PooledBags(Fixed(*(part.double() for part in parts)), labels, pooled.times().double(), evidence.noise)


def _fixed_point(bags: Sequence[_PooledBags], engine: BagPropagation) -> tuple[Fixed, _Problem]:
    point = Fixed(*(torch.cat(parts) for parts in zip(*(some.point for some in bags), strict=True)))
    signs = 2.0 * torch.cat([some.labels for some in bags]) - 1.0
    times = torch.cat([some.times for some in bags])
    precision, shift = engine.totals()
    own = _totals(point, times)
    rest = precision - own[0], shift - own[1]
    counts = [len(some.labels) for some in bags]
    return point, _Problem(counts, signs, bags[0].noise, times, engine.points, *rest)


def _totals(x: Fixed, times: Tensor) -> tuple[Tensor, Tensor]:
    """What the rows of the bags add to the precision and to the shift."""
    return x.rows.T @ ((times * x.tau)[:, None] * x.rows), x.rows.T @ (times * x.nu)


def _adjoint(point: Fixed, problem: _Problem, chunks: HeldChunks, *, kept: bool) -> Fixed:
    """λ of (14.1).

    Chunks come into Φ by the draws of v alone at which their bags are made linear. So a product with the transposed
    derivative of Φ is one sweep, which pulls λ back to the draws, and from there it is arithmetic of few numbers.
    """
    with torch.enable_grad():
        x = Fixed(*(part.detach().clone().requires_grad_() for part in point))
        slope = Fixed(*torch.autograd.grad(_log_evidence(x, problem), x))
        factor, mean = _belief(x, problem)
        draws = mean[:, None] + torch.linalg.solve_triangular(factor.T, problem.points, upper=True)
        image = draws, *_matched(_cavity(x, problem, factor, mean))
    look = _Draws(draws.detach(), kept)

    def product(vector: Tensor) -> Tensor:
        back = point.like(vector)
        pulled = chunks.sweep(_draws_step, look, back.cut(problem.counts))["draws"]
        own = torch.autograd.grad(image, x, grad_outputs=(pulled, back.tau, back.nu), retain_graph=True)
        return vector - Fixed(*own).flat()

    return point.like(gmres(product, slope.flat(), _ADJOINT_TOLERANCE, _ADJOINT_STEPS))


class _Draws(NamedTuple):
    """Where bags are made linear, and whether to keep what a second backward pass needs, rather than look again."""

    draws: Tensor  # (R, S)
    kept: bool


def _draws_step(chunk: Chunk, seen: tuple[Tensor, BagRows] | None, told: Told) -> tuple[Sums, Any]:
    """λ of the rows and offsets of a chunk, pulled back to the draws."""
    look: _Draws = told.shared
    with torch.enable_grad():
        draws, rows = seen or _looked(chunk, look.draws.clone().requires_grad_())
        back = [one.to(like.dtype) for one, like in zip(told.own, rows, strict=True)]
        (pulled,) = torch.autograd.grad(rows, draws, grad_outputs=back, retain_graph=look.kept)
    return {"draws": pulled}, (draws, rows) if look.kept else None


def _looked(chunk: Chunk, draws: Tensor) -> tuple[Tensor, BagRows]:
    return draws, _linearised(chunk.design, draws)


def _linearised(design: Design, draws: Tensor) -> BagRows:
    return linearise(design.phi, design.kappa, design.segments, draws.to(design.phi.dtype))


@dataclass(frozen=True)
class _LabelledBags:
    """A chunk as one label column sees it, with the bags alone that are labelled in it."""

    column: int

    def __call__(self, chunk: Chunk) -> Chunk:
        return chunk._replace(design=labelled_design(PiecesOfColumn(self.column)(chunk)))


def _belief(x: Fixed, problem: _Problem) -> tuple[Tensor, Tensor]:
    """The factor C of A and the mean of v."""
    eye = torch.eye(x.rows.shape[1], dtype=x.rows.dtype, device=x.rows.device)
    precision, shift = _totals(x, problem.times)
    factor = torch.linalg.cholesky(eye + problem.precision + precision)
    shift = problem.shift + shift
    return factor, torch.cholesky_solve(shift[:, None], factor)[:, 0]


class _Cavity(NamedTuple):
    mean: Tensor
    variance: Tensor
    log_z: Tensor
    slope: Tensor  # of log Z in the mean
    bend: Tensor  # its derivative


def _cavity(x: Fixed, problem: _Problem, factor: Tensor, mean: Tensor) -> _Cavity:
    """Every row without its own site, and the moments (4.2) of its label there."""
    weight = whiten(factor, x.rows.T).square().sum(0)
    remaining = 1.0 - x.tau * weight
    m, v = (x.rows @ mean - x.nu * weight) / remaining, weight / remaining
    s = torch.sqrt(1.0 + v)
    z = problem.signs * (m + x.offset) / s
    log_z, ratio = _noisy_probit(z, problem.noise)
    slope = problem.signs * ratio / s
    return _Cavity(m, v, log_z, slope, -slope.square() - z * problem.signs * slope / s)


def _noisy_probit(z: Tensor, noise: float) -> tuple[Tensor, Tensor]:
    """log(ε + (1 − 2ε) cdf(z)) and its derivative."""
    if noise == 0.0:
        return log_ndtr(z), hazard(z)
    log_z = torch.logaddexp(math.log1p(-2.0 * noise) + log_ndtr(z), torch.full_like(z, math.log(noise)))
    return log_z, torch.exp(math.log1p(-2.0 * noise) + log_pdf(z) - log_z)


def _log_evidence(x: Fixed, problem: _Problem) -> Tensor:
    """(4.4) as far as it depends on the rows of bags and their sites."""
    factor, mean = _belief(x, problem)
    seen = _cavity(x, problem, factor, mean)
    e = 1.0 + x.tau * seen.variance
    normaliser = -0.5 * torch.log(e) + (
        seen.variance * x.nu.square() + 2.0 * seen.mean * x.nu - x.tau * seen.mean.square()
    ) / (2.0 * e)
    shift = problem.shift + _totals(x, problem.times)[1]
    return (problem.times * (seen.log_z - normaliser)).sum() - torch.log(factor.diagonal()).sum() + 0.5 * shift @ mean


def _matched(seen: _Cavity) -> tuple[Tensor, Tensor]:
    """Sites by matching moments."""
    shrink = 1.0 + seen.variance * seen.bend
    return -seen.bend / shrink, (seen.slope - seen.bend * seen.mean) / shrink
