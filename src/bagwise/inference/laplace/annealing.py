"""Witness weights by deterministic annealing (theory section 6.2).

At every temperature two steps alternate: bag scores are fitted with the weights held fixed (6.4), then the weights
follow the instances' scores, P ∝ exp(λ F) within a bag. λ starts at 0.1 and grows tenfold. The two steps have no common
objective: negative bags would push down one instance after the other and never settle. So the weights are averaged,

    P ← P + 2/(t + 2) (P_new − P),

steps that die out, by which weights settle on the share of the rounds in which an instance was the witness.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.soft_max import BagLosses, WitnessLoss, hard_witness, soft_witness, uniform_weights
from bagwise.inference.laplace.mode import ModeLimits, find_mode, log_evidence
from bagwise.inference.laplace.pooled_rows import PooledRows
from bagwise.inference.loop import Report, Trace, iterate

FIRST_SHARPNESS, GROWTH = 0.1, 10.0
ROUNDS = 15  # at every temperature but, in the end, the last
LAST_ROUNDS = 200
_SETTLED = 1e-3  # largest change of a weight at which a temperature needs no further rounds


class Schedule(NamedTuple):
    """Temperatures, and whether the witness is at last a single instance."""

    n_stages: int
    hard: bool = False

    @property
    def final_sharpness(self) -> float:
        """λ of the last temperature."""
        return FIRST_SHARPNESS * GROWTH ** (self.n_stages - 1)


class Annealing:
    """The weights of one label column; ``step`` is for ``iterate``."""

    def __init__(self, rows: PooledRows, losses: BagLosses, schedule: Schedule) -> None:
        self._rows, self._loss, self._schedule = rows, WitnessLoss(losses), schedule
        self.weights = uniform_weights(rows.segments)
        self.scores = torch.zeros_like(self.weights)
        self._start: Tensor | None = None
        self._stage, self._round = 0, 0

    def step(self) -> Report:
        """One fit and one move of the weights; the residual is the largest change, plus one for every stage to come."""
        log_evidence = self._fit()
        sharpness = FIRST_SHARPNESS * GROWTH**self._stage
        move = soft_witness(self.scores, self._rows.segments, sharpness) - self.weights
        self.weights = self.weights + 2.0 / (self._round + 2.0) * move
        change = 2.0 / (self._round + 2.0) * float(move.abs().max())
        to_come = self._schedule.n_stages - 1 - self._stage
        self._round += 1
        if to_come and (self._round == ROUNDS or change <= _SETTLED):
            self._stage, self._round = self._stage + 1, 0
        return Report(log_evidence, change + to_come)

    def finish(self) -> None:
        """Scores that belong to the last weights; hard ones where the schedule asks for them."""
        self._fit()
        if self._schedule.hard:
            self.weights = hard_witness(self.scores, self._rows.segments)
            self._fit()

    def _fit(self) -> float:
        """F at the present weights, by (6.4); the log evidence (6.5)."""
        rows = self._rows.rows(self.weights)
        start = torch.zeros_like(rows[0]) if self._start is None else self._start
        mode = find_mode(self._loss, rows, [start])
        if mode.trace.interrupted:
            raise KeyboardInterrupt
        self._start = mode.v
        alpha = -self._loss.slope(rows @ mode.v)
        self.scores = self._rows.scores(self.weights, alpha)
        return float(log_evidence(self._loss, rows, mode.v))


class Annealed(NamedTuple):
    """Witness weights and how they were found."""

    weights: Tensor  # (N,)
    trace: Trace


_QUICK = ModeLimits(ROUNDS, _SETTLED)


def anneal(rows: PooledRows, losses: BagLosses, schedule: Schedule, limits: ModeLimits = _QUICK) -> Annealed:
    """Weights at the end of the schedule; ``limits`` are those of its last temperature."""
    with torch.no_grad():
        state = Annealing(rows, losses, schedule)
        most = ROUNDS * (schedule.n_stages - 1) + limits.max_iter
        trace = iterate(
            state.step, name="log evidence", max_iter=most, tol=limits.tol, watch=limits.watch, open_end=True
        )
        state.finish()
    return Annealed(state.weights, trace)
