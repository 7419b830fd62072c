"""Learning the kernel by a Laplace evidence, (6.3) or (6.5), with the search that all learned kernels go through."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bagwise.bag_models.soft_max import BagLosses, Pooling, SoftMaxLoss, WitnessLoss
from bagwise.bags import Bags
from bagwise.gp.features import Features, traced_design
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning.search import EvidenceSearch, differentiated, iteration_limit, joined_traces
from bagwise.inference.laplace.annealing import Schedule, annealed_weights
from bagwise.inference.laplace.mode import FLOOR, Loss, find_mode, log_evidence
from bagwise.inference.laplace.pooled_rows import RowsAt
from bagwise.inference.loop import Trace, Watch
from bagwise.numerics.segments import Segments

ROUNDS = 5  # of annealing and searching
_SETTLED = 0.05  # nats that a further round gains


class SearchSettings(NamedTuple):
    """How to search."""

    n_restarts: int
    random: np.random.RandomState
    watch: Watch
    prior: bool = True  # whether the kernel's parameters have their weak prior, or the evidence alone counts
    floor: float = FLOOR  # of the eigenvalues at the mode of a soft maximum


class LearnedKernel(NamedTuple):
    """The kernel found, and how the search went; None where nothing in it was free."""

    kernel: Any
    trace: Trace | None


class _Modes:
    """The mode of every label column, kept from one kernel to the next."""

    def __init__(self, losses: Sequence[Loss], floor: float = FLOOR) -> None:
        self._losses, self._floor = losses, floor
        self._last: list[Tensor | None] = [None] * len(losses)

    def log_evidence(self, phis: Sequence[Tensor]) -> Tensor:
        """Summed over columns; differentiable in every Φ."""
        return torch.stack([self._one(k, phi) for k, phi in enumerate(phis)]).sum()

    def _one(self, column: int, phi: Tensor) -> Tensor:
        last, loss = self._last[column], self._losses[column]
        start = torch.zeros_like(phi[0]).detach() if last is None else last
        mode = find_mode(loss, phi.detach(), [start])
        if mode.trace.interrupted:
            raise KeyboardInterrupt
        self._last[column] = mode.v
        return log_evidence(loss, phi, mode.v, self._floor)


def learn_soft_max(
    features: Features, bags: Bags, columns: Sequence[BagLosses], pooling: Pooling, how: SearchSettings
) -> LearnedKernel:
    """Maximise (6.3), summed over label columns, with the implicit dependence of every mode in the gradient."""
    kernel, x = copy.deepcopy(features.kernel), features.standardised(bags.X)
    segments = Segments(torch.from_numpy(bags.offsets.copy()).to(features.device))
    modes = _Modes([SoftMaxLoss(losses, segments, pooling) for losses in columns], how.floor)

    def objective() -> Tensor:
        design = traced_design(features, kernel, features.inducing, x, segments)
        return modes.log_evidence([design.phi.double()] * len(columns))

    return LearnedKernel(kernel, _searched(kernel, features, objective, how, how.n_restarts))


def learn_witness(
    features: Features, rows_at: RowsAt, columns: Sequence[BagLosses], schedule: Schedule, how: SearchSettings
) -> LearnedKernel:
    """Anneal, maximise (6.5) with the weights held fixed, and again, until another round gains nothing."""
    kernel, traces, reached = copy.deepcopy(features.kernel), [], -np.inf
    for number in range(ROUNDS):
        with torch.no_grad():
            rows = rows_at(kernel)
        weights = [annealed_weights(rows, losses, schedule) for losses in columns]
        objective = _witness_objective(kernel, rows_at, columns, weights)
        trace = _searched(kernel, features, objective, how, how.n_restarts if number == 0 else 1)
        if trace is None:
            return LearnedKernel(kernel, None)
        traces.append(trace)
        best = trace.values.max()
        if trace.interrupted or best - reached < _SETTLED:
            break
        reached = best
    return LearnedKernel(kernel, joined_traces(traces))


def _witness_objective(
    kernel: Any, rows_at: RowsAt, columns: Sequence[BagLosses], weights: Sequence[Tensor]
) -> Callable[[], Tensor]:
    modes = _Modes([WitnessLoss(losses) for losses in columns])

    def objective() -> Tensor:
        rows = rows_at(kernel)
        return modes.log_evidence([rows.rows(each) for each in weights])

    return objective


def _searched(
    kernel: Any, features: Features, objective: Callable[[], Tensor], how: SearchSettings, n_restarts: int
) -> Trace | None:
    block = KernelParameters(kernel, features.inducing.shape[1], features.takes_rows_as_they_come)
    free = len(block.get())
    if free == 0:
        return None
    return EvidenceSearch([block], differentiated(objective), prior=how.prior).run(
        n_restarts, iteration_limit(free), how.random, how.watch
    )
