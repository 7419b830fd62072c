"""Witness weights by deterministic annealing (theory section 6.2).

At every temperature two steps alternate: bag scores are fitted with the weights held fixed (6.4), then the weights
follow the instances' scores, P ∝ exp(λ F) within a bag. λ starts at 0.1 and grows tenfold. The two steps have no common
objective: negative bags would push down one instance after the other and never settle. So the weights are averaged,

    P ← P + 2/(t + 2) (P_new − P),

steps that die out, by which weights settle on the share of the rounds in which an instance was the witness. The paper
does not average: with ``averaged=False`` the weights are those of the last round, and often never settle.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from bagwise.bag_models.soft_max import BagLosses, WitnessLoss, hard_witness, soft_witness, uniform_weights
from bagwise.inference.laplace.mode import ModeLimits, find_mode, log_evidence
from bagwise.inference.laplace.pooled_rows import PooledRows
from bagwise.inference.loop import Report, Trace, iterate
from bagwise.numerics.segments import Segments

FIRST_SHARPNESS, GROWTH = 0.1, 10.0
FEWEST_STAGES, MOST_STAGES = 3, 6  # where the annealing goes on until nothing changes
ROUNDS = 15  # at every temperature but, in the end, the last
LAST_ROUNDS = 200
_SETTLED = 1e-3  # largest change of a weight at which a temperature needs no further rounds
_UNCHANGED = 1e-2  # largest change of a weight from one temperature to the next that is none


Rule = Callable[[Tensor, Segments], Tensor]  # the weights that scores ask for


class Schedule(NamedTuple):
    """Temperatures, and how the weights follow the scores.

    ``n_stages`` None: the temperature falls until the weights at its end are those of the one before. ``witnesses``:
    "soft" (29), "hard" (29) with (28) at last, "alternating" (28) in every round, which has no temperature.
    """

    n_stages: int | None
    witnesses: str = "soft"
    averaged: bool = True

    @property
    def most_stages(self) -> int:
        """Temperatures at most."""
        if self.witnesses == "alternating":
            return 1
        return MOST_STAGES if self.n_stages is None else self.n_stages

    def rule(self, stage: int) -> Rule:
        """The weights that scores ask for."""
        if self.witnesses == "alternating":
            return hard_witness
        return functools.partial(soft_witness, sharpness=sharpness_at(stage))


def sharpness_at(stage: int) -> float:
    """λ of a temperature."""
    return FIRST_SHARPNESS * GROWTH**stage


class WeightedBags(Protocol):
    """Bags as weighted means of their instances, in one label column, with weights that move."""

    def fit(self) -> float:
        """Scores at the present weights, by (6.4); returns the log evidence (6.5)."""

    def move(self, rule: Rule, share: float) -> float:
        """Weights towards those that the scores ask for; returns the largest change."""

    def moved(self) -> float:
        """The largest change of a weight since this was asked last."""

    def stop_recording(self) -> None:
        """What follows is only the end of a fit that was interrupted."""


class WeightsInMemory:
    """The weights of rows that are pooled in memory."""

    def __init__(self, rows: PooledRows, losses: BagLosses) -> None:
        self._rows, self._loss = rows, WitnessLoss(losses)
        self.weights = self._before = uniform_weights(rows.segments)
        self.scores = torch.zeros_like(self.weights)
        self._start: Tensor | None = None

    def fit(self) -> float:
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

    def move(self, rule: Rule, share: float) -> float:
        """Weights towards those that the scores ask for; returns the largest change."""
        wanted = rule(self.scores, self._rows.segments)
        change = share * float((wanted - self.weights).abs().max())
        self.weights = torch.lerp(self.weights, wanted, share)
        return change

    def moved(self) -> float:
        """The largest change of a weight since this was asked last."""
        change = float((self.weights - self._before).abs().max())
        self._before = self.weights
        return change

    def stop_recording(self) -> None:
        """Nothing is recorded."""


class Annealing:
    """The temperatures of one label column; ``step`` is for ``iterate``."""

    def __init__(self, bags: WeightedBags, schedule: Schedule) -> None:
        self._bags, self._schedule = bags, schedule
        self._round, self.stage = 0, 0
        self._last_stage = schedule.most_stages - 1

    def step(self) -> Report:
        """One fit and one move of the weights; the residual is the largest change, plus one for every stage to come."""
        log_evidence = self._bags.fit()
        share = 2.0 / (self._round + 2.0) if self._schedule.averaged else 1.0
        change, to_come = self._bags.move(self._schedule.rule(self.stage), share), self._last_stage - self.stage
        self._round += 1
        if to_come and (self._round == ROUNDS or change <= _SETTLED):
            self._cool()
        return Report(log_evidence, change + to_come)

    def _cool(self) -> None:
        """The next temperature; none where they come until nothing changes, and nothing has."""
        open_end = self._schedule.n_stages is None
        if open_end and self._bags.moved() <= _UNCHANGED and self.stage >= FEWEST_STAGES - 1:
            self._last_stage = self.stage
        else:
            self.stage, self._round = self.stage + 1, 0

    def finish(self) -> None:
        """Scores that belong to the last weights; hard ones where the schedule asks for them."""
        self._bags.fit()
        if self._schedule.witnesses == "hard":
            self._bags.move(hard_witness, 1.0)
            self._bags.fit()


class Annealed(NamedTuple):
    """How weights were found."""

    trace: Trace
    sharpness: float  # λ of the last temperature


_QUICK = ModeLimits(ROUNDS, _SETTLED)
Weights = TypeVar("Weights", bound=WeightedBags)


@torch.no_grad()
def anneal(bags: WeightedBags, schedule: Schedule, limits: ModeLimits = _QUICK) -> Annealed:
    """Move the weights to the end of the schedule; ``limits`` are those of its last temperature."""
    state = Annealing(bags, schedule)
    most = ROUNDS * (schedule.most_stages - 1) + limits.max_iter
    trace = iterate(state.step, name="log evidence", max_iter=most, tol=limits.tol, watch=limits.watch, open_end=True)
    if trace.interrupted:
        bags.stop_recording()
    state.finish()
    return Annealed(trace, sharpness_at(state.stage))


def anneal_columns(
    bags: Iterable[Weights], schedule: Schedule, limits: ModeLimits
) -> Iterator[tuple[Weights, Annealed]]:
    """One label column after the other; where one was interrupted the next ones get a single round each."""
    for each in bags:
        found = anneal(each, schedule, limits)
        yield each, found
        if found.trace.interrupted:
            schedule, limits = Schedule(1), limits._replace(max_iter=1)


def annealed_weights(rows: PooledRows, losses: BagLosses, schedule: Schedule) -> Tensor:
    """Weights (N,) of rows in memory at the end of the schedule."""
    bags = WeightsInMemory(rows, losses)
    anneal(bags, schedule)
    return bags.weights
