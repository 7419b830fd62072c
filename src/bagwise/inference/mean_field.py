"""Mean-field variational inference for probit instances (theory sections 1.1–1.2, 1.5).

With Σ = (I + ΦᵀΦ)⁻¹ = (C Cᵀ)⁻¹ and the optimal q(m) put in, the bound is a function of the mean μ of v alone:

    ELBO(μ) = Σ_b log Z_b(Φμ) − ½ Σ κ − ½ log det(I + ΦᵀΦ) − ½ |μ|²                                   (1.6)
    gradient = Φᵀ G(Φμ) − μ                                                                            (1.7)

In the coordinates w = Cᵀμ the published fixed point μ ← Σ Φᵀ E[m] is w ← w + gradient_w: gradient ascent with unit
step. Hess log Z ≥ −I makes it a minorise-maximise step, so the bound never falls; it is slow where the bags say
little, and L-BFGS in w finds the same optimum in a few dozen evaluations.

A bag without a label in some column is left out of that column's Gram matrix and of its κ (section 1.5). Columns with
the same pattern of missing labels share one factor. A bag of weight w adds w times to every sum.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.chunks import Chunk, Chunks, Sums
from bagwise.inference.lbfgs import ColumnwiseLBFGS, Objective
from bagwise.inference.loop import Report
from bagwise.numerics.linalg import cholesky, logdet, unwhiten, whiten
from bagwise.numerics.links import PROBIT

_ROUNDINGS = 10.0  # times the rounding of one row, times the root of their number


class Patterns(NamedTuple):
    """Which label columns have the same bags missing."""

    first: list[int]  # one column of each pattern
    of_column: Tensor  # (K,) the pattern of each column


def patterns_of(observed: Tensor) -> Patterns:
    """Group the columns of a (B, K) table of which bags state anything: equal columns go together."""
    _, of_column = torch.unique(observed.T, dim=0, return_inverse=True)
    first = [int((of_column == pattern).nonzero()[0]) for pattern in range(int(of_column.max()) + 1)]
    return Patterns(first, of_column)


def gram_step(chunk: Chunk, remembered: Any, patterns: Patterns) -> tuple[Sums, Any]:
    """ΦᵀΦ and Σκ over the instances whose bag is labelled, for every pattern; how rounding errors add up, squared."""
    design, weights = chunk.design, chunk.evidence.weights
    grams, leftovers = [], []
    for column in patterns.first:
        seen = chunk.evidence.informed(column, design.segments)
        everyone = bool(seen.all())
        rows = design.phi if everyone else design.phi[seen]
        times = weights.of_rows(torch.ones_like(design.phi[:, :1]), design.segments)[seen]
        grams.append(rows.T @ (rows if weights.each is None else times * rows))
        leftovers.append((times[:, 0] * design.kappa[seen]).sum())
    rounding = design.phi.new_full((), torch.finfo(design.phi.dtype).eps ** 2 * len(design.phi), dtype=torch.float64)
    return {"gram": torch.stack(grams), "kappa": torch.stack(leftovers), "rounding": rounding}, remembered


def pull_step(chunk: Chunk, remembered: Any, mean: Tensor) -> tuple[Sums, Any]:
    """Σ log Z_b and Φᵀ G at the mean μ, (K,) and (R, K)."""
    phi, segments, weights = chunk.design.phi, chunk.design.segments, chunk.evidence.weights
    log_z, g = chunk.evidence.terms(phi @ mean.to(phi.dtype), segments)
    return {"log_z": weights.of_bags(log_z).sum(0), "pull": phi.T @ weights.of_rows(g, segments)}, remembered


class MeanField:
    """The state of the iteration: the mean in the coordinates w, (R, K)."""

    def __init__(self, chunks: Chunks, observed: Tensor) -> None:
        self._chunks = chunks
        self._patterns = patterns_of(observed)
        sums = chunks.sweep(gram_step, self._patterns)
        eye = torch.eye(sums["gram"].shape[-1], dtype=torch.float64, device=sums["gram"].device)
        self._factors = torch.stack([cholesky(eye + gram, what="precision").lower for gram in sums["gram"]])
        self.reachable = _ROUNDINGS * math.sqrt(float(sums["rounding"]))  # no gradient can be told from 0 below it
        constant = -0.5 * sums["kappa"] - 0.5 * logdet(self._factors)
        self._constant = constant[self._patterns.of_column]
        start = torch.zeros(eye.shape[0], observed.shape[1], dtype=torch.float64, device=eye.device)
        self._climb = ColumnwiseLBFGS(self._evaluate, start)

    def fixed_point_step(self) -> Report:
        """One published update μ ← Σ Φᵀ E[m]."""
        return self._reported(self._climb.gradient_step)

    def lbfgs_step(self) -> Report:
        """One L-BFGS iteration."""
        return self._reported(self._climb.step)

    def bound(self) -> Tensor:
        """(1.6) at the current mean, one value per label column."""
        return self._climb.value

    def posterior(self) -> GaussianPosterior:
        """q(v) at the current mean."""
        return GaussianPosterior(self._mean(self._climb.x), self._factors, self._patterns.of_column, PROBIT)

    def _reported(self, step: Callable[[Objective], None]) -> Report:
        before, residual = float(self._climb.value.sum()), float(self._climb.gradient.abs().max())
        step(self._evaluate)
        return Report(before, residual)

    def _evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """The bound (K,) and its gradient in w (R, K)."""
        mean = self._mean(w)
        sums = self._chunks.sweep(pull_step, mean)
        bound = sums["log_z"] + self._constant - 0.5 * mean.square().sum(0)
        return bound, self._per_pattern(whiten, sums["pull"] - mean)

    def _mean(self, w: Tensor) -> Tensor:
        return self._per_pattern(unwhiten, w)

    def _per_pattern(self, solve: Callable[[Tensor, Tensor], Tensor], columns: Tensor) -> Tensor:
        out = torch.empty_like(columns)
        for pattern, factor in enumerate(self._factors):
            mine = self._patterns.of_column == pattern
            out[:, mine] = solve(factor, columns[:, mine])
        return out
