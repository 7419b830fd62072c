"""Witness weights of instances in chunks (theory section 6.2): one pass over the features for every round.

A chunk remembers the weights P of its instances and T = P Φ, one row per bag. Given these, (6.4) is ordinary
classification of bags by a = T v, and all of it is sums over bags,

    S(v) = Σ_b ℓ(T_b v) + ½ |v|²,   ∇S = Tᵀ ℓ' + v,   A = I + Tᵀ diag(ℓ'') T,

so the mode is found by sweeps that look at T alone. Then the weights follow the scores Φ v̂, in the pass that makes the
next T as well.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.soft_max import BagLosses, uniform_weights
from bagwise.inference.chunks import Chunk, HeldChunks, Sums, Told
from bagwise.inference.laplace.annealing import Rule
from bagwise.inference.laplace.mode import SecondOrder, evidence_at, lowest_mode, projected_factor, with_prior
from bagwise.numerics.blocks import blocks


class Remembered(NamedTuple):
    """What is remembered of a chunk."""

    weights: Tensor  # (n,)
    before: Tensor  # (n,) the same when it was last asked how far they have moved
    pooled: Tensor  # T, (b, C)
    witnesses: Tensor | None = None  # (b,) the first row of the largest weight, once it was asked for


class Move(NamedTuple):
    """What the weights of all chunks follow."""

    v: Tensor
    rule: Rule
    share: float
    n_chunks: int


class BagPosterior(NamedTuple):
    """The posterior of one label column, and the first row of the largest weight in every bag."""

    mean: Tensor  # (C,)
    factor: Tensor  # (C, C)
    log_evidence: Tensor
    witnesses: Tensor  # (B,)


class ChunkedWeights:
    """The weights of one label column; ``chunks`` have the losses of their bags in that column as evidence."""

    def __init__(self, chunks: HeldChunks, n_chunks: int, n_columns: int, n_inducing: int) -> None:
        self._chunks, self._numbers = chunks, list(range(n_chunks))
        found = chunks.sweep(begin_step, n_inducing)
        self.share_left_over = float(found["left over"] / found["variance"]) if found["variance"] > 0 else 0.0
        self._v = torch.zeros(n_columns, dtype=torch.float64, device=found["variance"].device)

    def fit(self) -> float:
        """v at the present weights, by (6.4); the log evidence (6.5)."""
        return float(self._fitted()[1])

    def move(self, rule: Rule, share: float) -> float:
        """Weights towards those that the scores ask for; returns the largest change."""
        found = self._chunks.sweep(follow_step, Move(self._v, rule, share, len(self._numbers)), self._numbers)
        return float(found["change"].max())

    def moved(self) -> float:
        """The largest change of a weight since this was asked last."""
        return float(self._chunks.sweep(compare_step, len(self._numbers), self._numbers)["change"].max())

    def stop_recording(self) -> None:
        """What follows is only the end of a fit that was interrupted."""
        self._chunks.stop_recording()

    def posterior(self) -> BagPosterior:
        """The Gaussian around the mode at the present weights."""
        at_mode, log_evidence = self._fitted()
        self._chunks.sweep(witness_step, None)
        witnesses = torch.cat(self._chunks.recalled(witnesses_of))
        return BagPosterior(self._v, projected_factor(at_mode.precision), log_evidence, witnesses)

    def height(self, v: Tensor) -> float:
        """S(v)."""
        return float(self._chunks.sweep(height_step, v)["loss"] + 0.5 * v @ v)

    def second_order(self, v: Tensor) -> SecondOrder:
        """S, ∇S and A at v."""
        found = self._chunks.sweep(tangent_step, v)
        return SecondOrder(float(found["loss"] + 0.5 * v @ v), found["slope"] + v, with_prior(found["curvature"]))

    def _fitted(self) -> tuple[SecondOrder, Tensor]:
        mode = lowest_mode(self, [self._v])
        if mode.trace.interrupted:
            raise KeyboardInterrupt
        self._v, at_mode = mode.v, self.second_order(mode.v)
        return at_mode, evidence_at(at_mode)


def begin_step(chunk: Chunk, _: None, n_inducing: int) -> tuple[Sums, Remembered]:
    """Equal weights; how much of the kernel's variance the inducing inputs leave over."""
    design = chunk.design
    left, weights = design.kappa.double().sum(), uniform_weights(design.segments)
    variance = left + design.phi[:, :n_inducing].double().square().sum()
    return {"left over": left, "variance": variance}, Remembered(weights, weights, _pooled(chunk, weights))


def height_step(chunk: Chunk, state: Remembered, v: Tensor) -> tuple[Sums, Remembered]:
    """Σ ℓ(T v)."""
    losses: BagLosses = chunk.evidence
    return {"loss": losses.value(state.pooled @ v)}, state


def tangent_step(chunk: Chunk, state: Remembered, v: Tensor) -> tuple[Sums, Remembered]:
    """The same, Tᵀ ℓ' and Tᵀ diag(ℓ'') T."""
    losses, T = chunk.evidence, state.pooled
    a = T @ v
    curvature = T.T @ (losses.bend(a)[:, None] * T)
    return {"loss": losses.value(a), "slope": T.T @ losses.slope(a), "curvature": curvature}, state


def follow_step(chunk: Chunk, state: Remembered, told: Told) -> tuple[Sums, Remembered]:
    """Weights towards those that the scores Φ v ask for, and their T."""
    move: Move = told.shared
    wanted = move.rule(chunk.design.phi.double() @ move.v, chunk.design.segments)
    change = move.share * (wanted - state.weights).abs().max()
    weights = torch.lerp(state.weights, wanted, move.share)
    return _of_chunk(told.own, move.n_chunks, change), Remembered(weights, state.before, _pooled(chunk, weights))


def compare_step(chunk: Chunk, state: Remembered, told: Told) -> tuple[Sums, Remembered]:
    """How far the weights have moved since the last time."""
    change = (state.weights - state.before).abs().max()
    return _of_chunk(told.own, told.shared, change), state._replace(before=state.weights)


def witness_step(chunk: Chunk, state: Remembered, _: None) -> tuple[Sums, Remembered]:
    """The first row of the largest weight in every bag, counted through all chunks."""
    rows = chunk.first + chunk.design.segments.first_largest(state.weights)
    return {"bags": rows.new_tensor(len(rows))}, state._replace(witnesses=rows)


def witnesses_of(state: Remembered) -> Tensor:
    """What ``witness_step`` has found."""
    assert state.witnesses is not None
    return state.witnesses


def _of_chunk(number: int, n_chunks: int, change: Tensor) -> Sums:
    """A number for every chunk, as a sum: the largest of them is taken from it."""
    changes = change.new_zeros(n_chunks)
    changes[number] = change
    return {"change": changes}


def _pooled(chunk: Chunk, weights: Tensor) -> Tensor:
    """P Φ, some columns at a time."""
    phi, segments = chunk.design.phi, chunk.design.segments
    parts = [segments.sum(weights[:, None] * phi[:, some].double()) for some in blocks(phi.shape[1], len(phi))]
    return torch.cat(parts, dim=1)
