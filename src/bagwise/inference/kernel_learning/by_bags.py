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
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bagwise.exceptions import NumericalError
from bagwise.inference.bag_propagation import (
    BagPropagation,
    BagRows,
    Pooled,
    labelled_design,
    linearise,
)
from bagwise.inference.belief import Belief
from bagwise.inference.chunks import Chunk, InMemory, OfColumn, Seen
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


class _Problem(NamedTuple):
    """What the map Φ needs besides the point."""

    chunks: Sequence[Chunk]  # of instances, in labelled bags only
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
        total, pulls = 0.0, []
        for column in range(chunks[0].evidence.labels.shape[1]):
            engine, pooled = self._settled(chunks, column)
            total += float(engine.log_evidence.sum())
            pulls.append((column, engine, self._pulls(chunks, column, engine, pooled)))
        for number, chunk in enumerate(self._rows.traced()):
            parts = [
                _pulled(OfColumn(column)(chunk), engine, cotangents[number]) for column, engine, cotangents in pulls
            ]
            torch.autograd.backward(torch.stack(parts).sum())
        return total

    def value(self) -> float:
        """log Z at the present kernel without its gradient, which takes most of the time."""
        chunks = self._rows.chunks()
        columns = range(chunks[0].evidence.labels.shape[1])
        return sum(float(self._settled(chunks, column)[0].log_evidence.sum()) for column in columns)

    def _settled(self, chunks: Sequence[Chunk], column: int) -> tuple[BagPropagation, list[Pooled]]:
        """Rows and sites at the present kernel, from the last ones or, should that fail, from nothing."""
        own = Seen(chunks, OfColumn(column))
        last = self._remembered.get(column)
        for start in (last, None) if last is not None else (None,):
            held = InMemory(own, None if start is None else start[1])
            engine = self._settle(held, column, None if start is None else start[0])
            if engine is not None:
                self._remembered[column] = engine.belief, held.remembered
                return engine, held.remembered
        raise NumericalError("expectation propagation does not settle at this kernel.")

    @torch.no_grad()
    def _settle(self, held: InMemory, column: int, belief: Belief | None) -> BagPropagation | None:
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

    def _pulls(
        self, chunks: Sequence[Chunk], column: int, engine: BagPropagation, pooled: list[Pooled]
    ) -> list[BagRows]:
        """λ of the rows and offsets of every chunk."""
        point, problem = _fixed_point(Seen(chunks, OfColumn(column)), engine, pooled)
        adjoint = _adjoint(point, problem)
        cuts = [part.n_labelled for part in pooled]
        parts = zip(torch.split(adjoint.rows, cuts), torch.split(adjoint.offset, cuts), strict=True)
        return [BagRows(*pair) for pair in parts]


def _pulled(chunk: Chunk, engine: BagPropagation, adjoint: BagRows) -> Tensor:
    """λᵀ Φ(x, θ) of a chunk, whose gradient in θ is what the chunk adds to (14.1)."""
    seen = labelled_design(chunk)
    found = linearise(seen.phi, seen.kappa, seen.segments, engine.draws().to(seen.phi.dtype))
    return (adjoint.rows * found.rows).sum() + (adjoint.offset * found.offset).sum()


def _fixed_point(chunks: Sequence[Chunk], engine: BagPropagation, pooled: list[Pooled]) -> tuple[Fixed, _Problem]:
    bags = [part.bag_rows() for part in pooled]
    sites = [part.bag_sites() for part in pooled]
    labels = torch.cat([part.chunk.evidence.labels[: part.n_labelled, 0] for part in pooled])
    point = Fixed(
        torch.cat([part.rows for part in bags]).double(),
        torch.cat([part.offset for part in bags]).double(),
        *(torch.cat(parts).double() for parts in zip(*sites, strict=True)),
    )
    times = torch.cat([part.times() for part in pooled]).double()
    precision, shift = engine.totals()
    own = _totals(point, times)
    signs, noise = 2.0 * labels.double() - 1.0, chunks[0].evidence.noise
    rest = precision - own[0], shift - own[1]
    return point, _Problem(Seen(chunks, _labelled_bags), signs, noise, times, engine.points, *rest)


def _totals(x: Fixed, times: Tensor) -> tuple[Tensor, Tensor]:
    """What the rows of the bags add to the precision and to the shift."""
    return x.rows.T @ ((times * x.tau)[:, None] * x.rows), x.rows.T @ (times * x.nu)


def _adjoint(point: Fixed, problem: _Problem) -> Fixed:
    """λ of (14.1)."""
    with torch.enable_grad():
        x = Fixed(*(part.detach().clone().requires_grad_() for part in point))
        log_z = _log_evidence(x, problem)
        slope = Fixed(*torch.autograd.grad(log_z, x))
        image = _mapped(x, problem)

    def product(vector: Tensor) -> Tensor:
        back = torch.autograd.grad(image, x, grad_outputs=point.like(vector), retain_graph=True)
        return vector - Fixed(*back).flat()

    return point.like(gmres(product, slope.flat(), _ADJOINT_TOLERANCE, _ADJOINT_STEPS))


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


def _mapped(x: Fixed, problem: _Problem) -> Fixed:
    """Φ(x): bags as rows at the q(v) that x makes, and sites by matching moments."""
    factor, mean = _belief(x, problem)
    draws = mean[:, None] + torch.linalg.solve_triangular(factor.T, problem.points, upper=True)
    parts = [_linearised(problem.chunks, number, draws) for number in range(len(problem.chunks))]
    seen = _cavity(x, problem, factor, mean)
    shrink = 1.0 + seen.variance * seen.bend
    return Fixed(
        torch.cat([part.rows for part in parts]).double(),
        torch.cat([part.offset for part in parts]).double(),
        -seen.bend / shrink,
        (seen.slope - seen.bend * seen.mean) / shrink,
    )


def _labelled_bags(chunk: Chunk) -> Chunk:
    return chunk._replace(design=labelled_design(chunk))


def _linearised(chunks: Sequence[Chunk], number: int, draws: Tensor) -> BagRows:
    """The bags of one chunk as rows; of many chunks the backward pass looks at each again, wherever it lies."""

    def look(draws: Tensor) -> BagRows:
        design = chunks[number].design
        return linearise(design.phi, design.kappa, design.segments, draws.to(design.phi.dtype))

    return BagRows(*(checkpoint(look, draws, use_reentrant=False) if len(chunks) > _KEPT_CHUNKS else look(draws)))
