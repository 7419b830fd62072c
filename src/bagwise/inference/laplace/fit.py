"""Posteriors of v by Laplace's approximation, one label column at a time (theory sections 6.1 and 6.2)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bagwise.bag_models.soft_max import BagLosses, LossColumns, Pooling, SoftMaxLoss, WitnessLoss
from bagwise.bags import Bags
from bagwise.gp.features import Features, chunk_slices, reassembled
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.chunks import OfColumn
from bagwise.inference.laplace.annealing import Schedule, WeightsInMemory, anneal_columns, annealed_weights
from bagwise.inference.laplace.chunked_weights import ChunkedWeights
from bagwise.inference.laplace.mode import FLOOR, Loss, ModeLimits, find_mode, log_evidence, precision, projected_factor
from bagwise.inference.laplace.pooled_rows import PooledRows, SparseLinearRows
from bagwise.inference.loop import Trace
from bagwise.inference.places import chunks_of
from bagwise.numerics.linalg import cholesky
from bagwise.numerics.links import Link
from bagwise.numerics.segments import Segments

_ROOT_JITTER = 1e-12


class ColumnFit(NamedTuple):
    """The posterior of one label column, and the first row of the largest weight in every bag."""

    mean: Tensor  # (R,)
    factor: Tensor  # (R, R)
    log_evidence: Tensor
    witnesses: Tensor  # (B,)
    trace: Trace


class Starts(NamedTuple):
    """Where to start the search for a soft-max mode: zero, the witness solution, draws of the prior."""

    total: int  # of all of them
    rows: PooledRows
    schedule: Schedule
    random: np.random.RandomState


class AllRows(NamedTuple):
    """The features of all instances, for losses that need them at once."""

    phi: Tensor  # (N, R), in double precision
    segments: Segments

    def pooled(self, weights: Tensor) -> Tensor:
        """T = P Φ."""
        return self.segments.sum(weights[:, None] * self.phi)


@torch.no_grad()
def fit_soft_max(
    features: Features,
    bags: Bags,
    columns: Sequence[BagLosses],
    pooling: Pooling,
    starts: Starts,
    limits: ModeLimits,
    floor: float = FLOOR,
) -> list[ColumnFit]:
    """The lowest mode of (6.1) that was reached, and the Gaussian around it, of curvature ``floor`` at least."""
    rows = all_rows(features, bags)
    fits = []
    for losses in columns:
        loss = SoftMaxLoss(losses, rows.segments, pooling)
        fit = mode_posterior(loss, rows, limits, _chosen(starts, rows, losses), floor)
        fits.append(fit._replace(witnesses=rows.segments.first_largest(rows.phi @ fit.mean)))
    return fits


class WitnessFit(NamedTuple):
    """Posteriors of all columns, and the features that they are about."""

    features: Features
    fits: list[ColumnFit]
    sharpness: float  # λ of the last temperature
    left_over: float  # share of the kernel's variance that the features do not hold


@torch.no_grad()
def fit_witness(
    features: Features,
    bags: Bags,
    columns: Sequence[BagLosses],
    rows: PooledRows | None,
    schedule: Schedule,
    limits: ModeLimits,
) -> WitnessFit:
    """Weights by annealing, and given these the posterior of every column: of rows pooled in memory, or in chunks."""
    if rows is None:
        return _fit_chunks(features, bags, columns, schedule, limits)
    weights = (WeightsInMemory(rows, losses) for losses in columns)
    annealed = list(anneal_columns(weights, schedule, limits))
    if isinstance(rows, SparseLinearRows):
        means = torch.cat([rows.means(each.weights) for each, _ in annealed])
        features = reassembled(features, inducing=means, origin="weighted means of the bags")
    fits = fit_weighted(features, bags, columns, [Witnessed(each.weights, how.trace) for each, how in annealed])
    return WitnessFit(features, fits, max(how.sharpness for _, how in annealed), 0.0)


def _fit_chunks(
    features: Features, bags: Bags, columns: Sequence[BagLosses], schedule: Schedule, limits: ModeLimits
) -> WitnessFit:
    chunks = chunks_of(features, bags, LossColumns(columns, bags.offsets))
    n_chunks = sum(1 for _ in chunk_slices(bags, features.n_columns))
    fits, sharpness, left_over = [], 0.0, 0.0
    columnwise = (
        ChunkedWeights(chunks.through(OfColumn(column)), n_chunks, features.n_columns, features.n_inducing)
        for column in range(len(columns))
    )
    for weights, annealed in anneal_columns(columnwise, schedule, limits):
        fits.append(ColumnFit(*weights.posterior(), annealed.trace))
        sharpness, left_over = max(sharpness, annealed.sharpness), weights.share_left_over
    return WitnessFit(features, fits, sharpness, left_over)


class Witnessed(NamedTuple):
    """Witness weights of one label column, and how they were found."""

    weights: Tensor  # (N,)
    trace: Trace


@torch.no_grad()
def fit_weighted(
    features: Features, bags: Bags, columns: Sequence[BagLosses], found: Sequence[Witnessed]
) -> list[ColumnFit]:
    """Ordinary classification of the bags, each the weighted mean of its instances (6.4)."""
    rows = all_rows(features, bags)
    return [
        ColumnFit(*_bag_posterior(rows.pooled(weights), losses), rows.segments.first_largest(weights), trace)
        for losses, (weights, trace) in zip(columns, found, strict=True)
    ]


def share_left_over(features: Features, bags: Bags) -> float:
    """Mean κ over mean k(x, x)."""
    left = total = 0.0
    for _, design in features.designs(bags):
        own = design.phi[:, : features.n_inducing]
        left += float(design.kappa.sum())
        total += float(design.kappa.sum() + own.square().sum())
    return left / total if total > 0 else 0.0


def joint_posterior(fits: Sequence[ColumnFit], link: Link) -> GaussianPosterior:
    """All columns side by side."""
    means, factors = (torch.stack([getattr(fit, name) for fit in fits]) for name in ("mean", "factor"))
    return GaussianPosterior(means.T, factors, torch.arange(len(fits), device=means.device), link)


def all_rows(features: Features, bags: Bags) -> AllRows:
    """φ of every instance, in double precision."""
    phi = torch.cat([design.phi.double() for _, design in features.designs(bags)])
    return AllRows(phi, Segments(torch.from_numpy(bags.offsets.copy()).to(features.device)))


@torch.no_grad()
def mode_posterior(
    loss: Loss, rows: AllRows, limits: ModeLimits, starts: list[Tensor] | None = None, floor: float = FLOOR
) -> ColumnFit:
    """The Gaussian around the lowest mode of a loss of whole bags that was reached, from zero or from some starts."""
    mode = find_mode(loss, rows.phi, starts or [torch.zeros_like(rows.phi[0])], limits)
    factor = projected_factor(precision(loss, rows.phi, rows.phi @ mode.v), floor)
    evidence = log_evidence(loss, rows.phi, mode.v, floor)
    return ColumnFit(mode.v, factor, evidence, rows.segments.offsets[:-1], mode.trace)


def _chosen(starts: Starts, rows: AllRows, losses: BagLosses) -> list[Tensor]:
    zero = torch.zeros_like(rows.phi[0])
    if starts.total == 1:
        return [zero]
    weights = annealed_weights(starts.rows, losses, starts.schedule)
    drawn = [starts.random.standard_normal(len(zero)) for _ in range(starts.total - 2)]
    return [zero, _bag_posterior(rows.pooled(weights), losses)[0], *torch.as_tensor(np.array(drawn)).to(zero)]


def _bag_posterior(T: Tensor, losses: BagLosses) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and factor of v for bag scores a = T v, and the log evidence (6.5).

    The mode is found in as many dimensions as there are bags or columns of T, whichever is less: a = L w with
    L Lᵀ = T Tᵀ has the same law, and v̂ = Tᵀ α with α = −ℓ'(â) either way.
    """
    loss = WitnessLoss(losses)
    rows = T if T.shape[1] <= T.shape[0] else cholesky(T @ T.T, _ROOT_JITTER, "kernel matrix of the bags").lower
    mode = find_mode(loss, rows, [torch.zeros_like(rows[0])])
    if mode.trace.interrupted:
        raise KeyboardInterrupt
    a = rows @ mode.v
    factor = projected_factor(precision(loss, T, a))
    return -(T.T @ loss.slope(a)), factor, log_evidence(loss, rows, mode.v)
