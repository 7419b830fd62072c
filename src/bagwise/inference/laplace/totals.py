"""The posterior of v from statements about totals, around its mode, and the size of the effect of a bag (section 15).

Numbers of positives leave most of v open in most directions, so an inference that treats every individual as observed
is far too sure. Here a bag adds one direction, with the information that its number really has. The size s of the
effect is chosen together with the kernel by (4.7), whose ℓ_b has the effect integrated out exactly: what a bag shares
is inside ℓ_b, not spread over messages, whose evidence overstates it (section 13.6).
"""

import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from bagwise.bag_models.totals import TotalBags
from bagwise.bags import Bags
from bagwise.evidence.reading import Stated
from bagwise.evidence.statements import NONE
from bagwise.evidence.totals import TotalStatements, total_statements
from bagwise.exceptions import ConvergenceWarning, NumericalError, warn_user
from bagwise.gp.features import Design, Features, reassembled, traced_design
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.kernel_learning.learn import bags_within
from bagwise.inference.kernel_learning.search import Block, EvidenceSearch, differentiated, iteration_limit
from bagwise.inference.laplace.around_mode import ModeEvidence, Rows
from bagwise.inference.loop import Trace, Watch
from bagwise.numerics.links import PROBIT
from bagwise.numerics.segments import Segments

KERNEL_ROWS, EFFECT_ROWS = 800, 3_000  # that the kernel and the size of the effect are learned from, in whole bags
EFFECT_CENTRE, EFFECT_SPREAD = 0.3, 1.5  # prior of the size of the effect: its median, and the sd of its logarithm
FINAL = 1e-10  # expected gain of a step at which the mode of the answer has settled: it is right to 1e-5 of its spread
MOST_STEPS = 500
_SIZES = (1e-3, 10.0)  # between which it is looked for


class TotalsEvidence(ModeEvidence):
    """(4.7) of statements about totals; ``log_sd`` is log s, None where bags have no effect."""

    settled_at, rounding = 1e-6, 1e-11

    def __init__(self, bags: TotalBags, log_sd: Tensor | None) -> None:
        self._bags, self.log_sd = bags, log_sd

    def _sd(self, like: Tensor) -> Tensor:
        return like.new_zeros(()) if self.log_sd is None else torch.exp(self.log_sd)

    def at_size(self, log_size: float, design: Design) -> float:
        """The log evidence of another size of the effect."""
        self.log_sd = torch.tensor(log_size, dtype=design.phi.dtype, device=design.phi.device)
        return float(self.find(design).log_evidence)

    def _log_likelihood(self, rows: Rows, z: Tensor) -> Tensor:
        return self._bags.logs(z, rows.shrink, self._sd(z)).sum()

    def _information(self, rows: Rows, z: Tensor) -> Tensor:
        return self._bags.information(rows.scaled, z, rows.shrink, self._sd(z))


class EffectSize:
    """log s as a block of a search, with its prior."""

    def __init__(self, log_sd: Tensor) -> None:
        self._log_sd = log_sd.requires_grad_()
        self.centre, self.spread = np.array([np.log(EFFECT_CENTRE)]), np.array([EFFECT_SPREAD])

    def get(self) -> NDArray[np.float64]:
        """The current value."""
        return self._log_sd.detach().cpu().double().numpy().reshape(1).copy()

    def set(self, vector: NDArray[np.float64]) -> None:
        """Put a value in place, within what is looked for."""
        with torch.no_grad():
            self._log_sd.fill_(float(np.clip(vector[0], *np.log(_SIZES))))

    def gradient(self) -> NDArray[np.float64]:
        """What ``backward`` left."""
        found = self._log_sd.grad
        return np.zeros(1) if found is None else found.cpu().double().numpy().reshape(1)

    def clear(self) -> None:
        """Forget the gradient."""
        self._log_sd.grad = None


class Totals(NamedTuple):
    """Bags and what they state, one set of statements for every label column."""

    bags: Bags
    columns: tuple[TotalStatements, ...]

    @classmethod
    def of(cls, bags: Bags, stated: Stated, label_noise: float) -> "Totals":
        """Statements as they were read."""
        return cls(bags, tuple(total_statements(column, bags, label_noise) for column in stated.columns))

    def stating(self) -> NDArray[np.int64]:
        """Numbers of the bags that state anything."""
        observed = [(column.kind != NONE) | _has_known(column) for column in self.columns]
        return np.flatnonzero(np.any(observed, axis=0))

    def only(self, chosen: NDArray[np.int64]) -> "Totals":
        """Some of the bags."""
        return Totals(self.bags[chosen], tuple(column.of_bags(chosen) for column in self.columns))

    def evidences(self, features: Features, log_sd: Tensor | None) -> list[TotalsEvidence]:
        """The log evidence of every column; all share the kernel and the size of the effect."""
        held = (TotalBags(column, features.dtype, features.device) for column in self.columns)
        return [TotalsEvidence(bags, log_sd) for bags in held]


def _has_known(column: TotalStatements) -> NDArray[np.bool_]:
    return np.add.reduceat((~np.isnan(column.known)).astype(np.int64), column.offsets[:-1]) > 0


class LearnedTotals(NamedTuple):
    """Features with their kernel, the size of the effect (0 for none), and how the search went."""

    features: Features
    effect: float
    trace: Trace | None


def learn_totals(
    features: Features,
    totals: Totals,
    effect: float | None,
    *,
    kernel_too: bool,
    n_restarts: int,
    random: np.random.RandomState,
    watch: Watch,
) -> LearnedTotals:
    """The kernel (where ``kernel_too``) and the size of the effect (where ``effect`` is None) of high log evidence.

    The kernel is learned from a few random bags, the size of the effect then from more.
    """
    stating = totals.stating()
    if len(stating) == 0:
        return LearnedTotals(features, effect or 0.0, None)
    order, size, trace = random.permutation(stating), effect or 0.0, None
    few, more = (np.sort(order[: bags_within(totals.bags.sizes[order], rows)]) for rows in (KERNEL_ROWS, EFFECT_ROWS))
    if kernel_too:
        features, size, trace = _searched(features, totals.only(few), effect, n_restarts, random, watch)
    if effect is None and (trace is None or len(few) < len(more)):
        size = _best_size(features, totals.only(more), size if trace is not None else None)
    return LearnedTotals(features, size, trace)


def _searched(
    features: Features,
    totals: Totals,
    effect: float | None,
    n_restarts: int,
    random: np.random.RandomState,
    watch: Watch,
) -> tuple[Features, float, Trace | None]:
    kernel, inducing = copy.deepcopy(features.kernel), features.inducing.clone()
    log_sd = _log_size(EFFECT_CENTRE if effect is None else effect, features)
    blocks: list[Block] = [KernelParameters(kernel, inducing.shape[1], features.takes_rows_as_they_come)]
    if effect is None and log_sd is not None:
        blocks.append(EffectSize(log_sd))
    free = sum(len(block.get()) for block in blocks)
    if free == 0:
        return features, effect or 0.0, None
    evidences, x = totals.evidences(features, log_sd), features.standardised(totals.bags.X)
    segments, sizes = segments_of(totals.bags, features), features.log_sizes(totals.bags.totals)

    def objective() -> Tensor:
        design = traced_design(features, kernel, inducing, x, segments, sizes)
        return torch.stack([evidence(design) for evidence in evidences]).sum()

    search = EvidenceSearch(blocks, differentiated(objective))
    trace = search.run(n_restarts, iteration_limit(free), random, watch)
    size = 0.0 if log_sd is None else float(log_sd.detach().exp())
    return reassembled(features, kernel=kernel), size, trace


def _log_size(effect: float, features: Features) -> Tensor | None:
    """log s; None for no effect."""
    return torch.tensor(np.log(effect), dtype=features.dtype, device=features.device) if effect > 0 else None


def _best_size(features: Features, totals: Totals, near: float | None) -> float:
    """The size of the effect of the highest log evidence and log prior, looked for ``near`` one from fewer bags."""
    ends = np.log(_SIZES) if near is None else np.clip(np.log(near) + np.array([-1.0, 1.0]), *np.log(_SIZES))
    evidences, design = totals.evidences(features, None), whole_design(features, totals.bags)

    def loss(log_size: float) -> float:
        away = (log_size - np.log(EFFECT_CENTRE)) / EFFECT_SPREAD
        try:
            return 0.5 * float(away) ** 2 - sum(evidence.at_size(log_size, design) for evidence in evidences)
        except NumericalError:
            return float("inf")

    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 0.03})
    return float(np.exp(found.x))


def segments_of(bags: Bags, features: Features) -> Segments:
    """Where the bags lie, on the device of the features."""
    return Segments(torch.from_numpy(bags.offsets.copy()).to(features.device))


def whole_design(features: Features, bags: Bags) -> Design:
    """The design of all bags at once."""
    parts = [design for _, design in features.designs(bags)]
    kappa = torch.cat([part.kappa for part in parts])
    return Design(torch.cat([part.phi for part in parts]), kappa, segments_of(bags, features))


class AroundMode(NamedTuple):
    """What this inference leaves behind."""

    posterior: GaussianPosterior
    trace: Trace
    log_evidence: Tensor  # (K,)


def by_totals(features: Features, totals: Totals, effect: float) -> AroundMode:
    """The posterior of v around its mode; warns where the search for the mode has not settled."""
    design = whole_design(features, totals.bags)
    evidences = totals.evidences(features, _log_size(effect, features))
    for evidence in evidences:
        evidence.settled_at, evidence.most_steps = FINAL, MOST_STEPS
    found = [evidence.find(design) for evidence in evidences]
    settled, steps = all(mode.settled for mode in found), max(mode.steps for mode in found)
    if not settled:
        warn_user(f"the mode had not settled after {steps} steps.", ConvergenceWarning)
    log_evidence = torch.stack([mode.log_evidence.double() for mode in found])
    trace = Trace("log evidence", log_evidence.cpu().numpy(), np.zeros(len(found)), settled)
    posterior = GaussianPosterior(
        torch.stack([mode.v.double() for mode in found], dim=1),
        torch.stack([mode.lower.double() for mode in found]),
        torch.arange(len(found), device=features.device),
        PROBIT,
    )
    return AroundMode(posterior, trace, log_evidence)
