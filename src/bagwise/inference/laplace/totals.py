"""The posterior of v from statements about totals, around its mode, and the size of the effect of a bag (section 15).

Numbers of positives leave most of v open in most directions, so an inference that treats every individual as observed
is far too sure. Here a bag adds one direction, with the information that its number really has. Kernel and
effects are chosen by (4.7), whose ℓ_b has the effects integrated out: what a bag shares is inside ℓ_b, not spread over
messages, whose evidence overstates it (section 13.6). The sizes of the effects are then averaged over.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.total_expansion import TotalExpansion
from bagwise.bag_models.totals import TotalBags
from bagwise.bags import Bags
from bagwise.evidence.groups import members
from bagwise.evidence.reading import Stated
from bagwise.evidence.statements import NONE
from bagwise.evidence.totals import TotalStatements, total_statements
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.gp.effects import NO_EFFECT, GroupEffect
from bagwise.gp.features import Design, Features, reassembled, traced_design
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.kernel_learning.learn import bags_within
from bagwise.inference.kernel_learning.search import Block, EvidenceSearch, differentiated, iteration_limit
from bagwise.inference.laplace.around_mode import ModeEvidence, Rows
from bagwise.inference.laplace.effect_sizes import (
    CENTRE,
    EffectParameters,
    averaged_effect,
    effect_of,
    fixed_effect,
)
from bagwise.inference.loop import Trace, Watch
from bagwise.numerics.linalg import cholesky
from bagwise.numerics.links import PROBIT
from bagwise.numerics.segments import Segments

KERNEL_ROWS, EFFECT_ROWS = 800, 3_000  # times columns that kernel and effects are learned from, in whole bags
FINAL = 1e-10  # expected gain of a step at which the mode of the answer has settled: it is right to 1e-5 of its spread
COMPARED = 1e-3  # the same where sizes of effects are compared: their log evidence is right to about .001
MOST_STEPS = 200


class TotalsEvidence(ModeEvidence):
    """(4.7) of statements about totals, each counted ``times`` (b,) times, as a function of the effects as well."""

    settled_at, rounding = 1e-5, 1e-11
    curved_columns, newton_entries = 40, 2**20

    def __init__(
        self, bags: TotalBags, effect: Callable[[], Effect], times: Tensor, member: Tensor | None = None
    ) -> None:
        self._bags, self._effect, self._times, self._member = bags, effect, times, member
        self._last: tuple[Rows, Tensor, TotalExpansion] | None = None

    def _log_likelihood(self, rows: Rows, z: Tensor) -> Tensor:
        effect = self._effect()
        return (self._times * self._bags.logs(z, self._lever(rows, effect), effect)).sum()

    def _lever(self, rows: Rows, effect: Effect) -> Tensor:
        """(n,) by how much an effect of 1 moves the scores of rows; ``member`` (n, G) says which group they are of."""
        if effect.factors is None or self._member is None:
            return rows.shrink
        return rows.shrink * (self._member @ effect.factors)

    def _sloped(self, rows: Rows, v: Tensor) -> tuple[Tensor, Tensor]:
        """Written out where bags state numbers (section 15.4)."""
        if not self._bags.only_numbers:
            return super()._sloped(rows, v)
        found = self._expansion(rows, v)
        value = (self._times * found.logs).sum() - 0.5 * v @ v
        slope = rows.scaled.T @ (self._bags.segments.spread(self._times) * found.slope)
        return value, slope - v

    def _curvature(self, rows: Rows, v: Tensor) -> Tensor:
        if not self._bags.only_numbers:
            return super()._curvature(rows, v)
        eye = torch.eye(len(v), dtype=v.dtype, device=v.device)
        return eye - self._expansion(rows, v).curvature(self._times, rows.scaled)

    def _expansion(self, rows: Rows, v: Tensor) -> TotalExpansion:
        """Of all bags at v; the last one is remembered: slope and curvature are asked for one after the other."""
        if self._last is None or self._last[0] is not rows or self._last[1] is not v:
            effect = self._effect()
            self._last = rows, v, self._bags.expansion(rows.scaled @ v, self._lever(rows, effect), effect)
        return self._last[2]

    def _information(self, rows: Rows, z: Tensor) -> Tensor:
        effect = self._effect()
        return self._bags.information(rows.scaled, z, self._lever(rows, effect), effect, self._times)


class Totals(NamedTuple):
    """Bags and what they state, one set of statements for every label column."""

    bags: Bags
    columns: tuple[TotalStatements, ...]
    weight: NDArray[np.float64] | None = None  # (B,) how many times a bag counts; None is once
    groups: tuple[int, ...] = ()  # numbers of the features that name groups, each of which has effects of its own size

    @classmethod
    def of(
        cls,
        bags: Bags,
        stated: Stated,
        label_noise: float,
        weight: NDArray[np.float64] | None = None,
        groups: tuple[int, ...] = (),
    ) -> "Totals":
        """Statements as they were read."""
        columns = tuple(total_statements(column, bags, label_noise) for column in stated.columns)
        return cls(bags, columns, weight, groups)

    @property
    def times(self) -> NDArray[np.float64]:
        """(B,) how many times a bag counts."""
        return np.ones(len(self.bags)) if self.weight is None else self.weight

    def stating(self) -> NDArray[np.int64]:
        """Numbers of the bags that state anything."""
        observed = [(column.kind != NONE) | _has_known(column) for column in self.columns]
        return np.flatnonzero(np.any(observed, axis=0) & (self.times > 0))

    def only(self, chosen: NDArray[np.int64]) -> "Totals":
        """Some of the bags."""
        columns = tuple(column.of_bags(chosen) for column in self.columns)
        return Totals(self.bags[chosen], columns, self.times[chosen], self.groups)

    def evidences(self, features: Features, effect: Callable[[], Effect]) -> list[TotalsEvidence]:
        """The log evidence of every column; all share the kernel and the effects."""
        held = (TotalBags(column, features.dtype, features.device) for column in self.columns)
        times = torch.as_tensor(self.times, dtype=features.dtype, device=features.device)
        member = times.new_tensor(members(self.bags.in_memory().X, self.groups)) if self.groups else None
        return [TotalsEvidence(bags, effect, times, member) for bags in held]


def _has_known(column: TotalStatements) -> NDArray[np.bool_]:
    return np.add.reduceat((~np.isnan(column.known)).astype(np.int64), column.offsets[:-1]) > 0


class LearnedTotals(NamedTuple):
    """Features with their kernel, the effects, how the search went, and where v is under each possible effect."""

    features: Features
    effect: GroupEffect
    trace: Trace | None
    modes: Tensor | None = None  # (effects, R, K)


def learn_totals(
    features: Features,
    totals: Totals,
    effect: GroupEffect | None,
    *,
    kernel_too: bool,
    n_restarts: int,
    random: np.random.RandomState,
    watch: Watch,
) -> LearnedTotals:
    """The kernel (where ``kernel_too``) of high log evidence, and the effects (where ``effect`` is None) it allows.

    The kernel is learned from a few random bags, the effects then from more.
    """
    stating = totals.stating()
    if len(stating) == 0:
        return LearnedTotals(features, effect or NO_EFFECT, None)
    order, near, trace = random.permutation(stating), None, None
    few, more = (
        np.sort(order[: bags_within(totals.bags.sizes[order], rows // len(totals.columns))])
        for rows in (KERNEL_ROWS, EFFECT_ROWS)
    )
    if kernel_too:
        features, near, trace = _searched(features, totals.only(few), effect, n_restarts, random, watch)
    if effect is not None:
        return LearnedTotals(features, effect, trace)
    effect, modes = _possible_effects(features, totals.only(more), near)
    return LearnedTotals(features, effect, trace, modes)


def _searched(
    features: Features,
    totals: Totals,
    effect: GroupEffect | None,
    n_restarts: int,
    random: np.random.RandomState,
    watch: Watch,
) -> tuple[Features, NDArray[np.float64] | None, Trace | None]:
    kernel, inducing = copy.deepcopy(features.kernel), features.inducing.clone()
    effects = EffectParameters(effect, len(totals.groups), features.dtype, features.device)
    blocks: list[Block] = [KernelParameters(kernel, inducing.shape[1], features.takes_rows_as_they_come), effects]
    free = sum(len(block.get()) for block in blocks)
    if free == 0:
        return features, None, None
    evidences, x = totals.evidences(features, effects.effect), features.standardised(totals.bags.X)
    segments, sizes = segments_of(totals.bags, features), features.log_sizes(totals.bags.totals)

    def objective() -> Tensor:
        design = traced_design(features, kernel, inducing, x, segments, sizes)
        return torch.stack([evidence(design) for evidence in evidences]).sum()

    search = EvidenceSearch(blocks, differentiated(objective))
    trace = search.run(n_restarts, iteration_limit(free), random, watch)
    return reassembled(features, kernel=kernel), effects.log_sizes() if effect is None else None, trace


def _possible_effects(
    features: Features, totals: Totals, near: NDArray[np.float64] | None
) -> tuple[GroupEffect, Tensor]:
    """The sizes of the effects that the log evidence leaves possible at this kernel, and the modes of v under them."""
    like, now = features.inducing, [Effect(features.inducing.new_zeros(()), features.inducing.new_zeros(()))]
    evidences, design = totals.evidences(features, lambda: now[0]), whole_design(features, totals.bags)
    modes: dict[tuple[bytes, float], Tensor] = {}
    for evidence in evidences:
        evidence.settled_at = COMPARED

    def log_evidence(sizes: NDArray[np.float64], share: float) -> float:
        now[0] = effect_of(sizes, share, like)
        found = [evidence.find(design) for evidence in evidences]
        modes[sizes.tobytes(), share] = torch.stack([mode.v.double() for mode in found], dim=1)
        return sum(float(mode.log_evidence) for mode in found)

    start = np.full(max(len(totals.groups), 1), np.log(CENTRE)) if near is None else near
    possible = averaged_effect(log_evidence, start)
    asked = zip(possible.sizes, possible.shares.tolist(), strict=True)
    return GroupEffect.of_groups(*possible, totals.groups), torch.stack([modes[s.tobytes(), q] for s, q in asked])


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


def by_totals(features: Features, totals: Totals, effect: GroupEffect, modes: Tensor | None = None) -> AroundMode:
    """The posterior of v around its mode; warns where the search for the mode has not settled.

    ``modes`` (effects, R, K) are those under the single possible effects: how they differ widens the posterior.
    """
    design = whole_design(features, totals.bags)
    fixed = fixed_effect(effect, features.dtype, features.device)
    evidences = totals.evidences(features, lambda: fixed)
    for evidence, start in zip(evidences, _starts(features, totals, lambda: fixed), strict=True):
        evidence.settled_at, evidence.most_steps = FINAL, MOST_STEPS
        if start is not None:
            evidence.begin_at(start)
    found = [evidence.find(design) for evidence in evidences]
    settled, steps = all(mode.settled for mode in found), max(mode.steps for mode in found)
    if not settled:
        warn_user(
            f"the most probable function had not settled after {steps} steps; ranges may be off. Simplify the model "
            "(fewer features, a larger lengthscale, learn=False), and report this if it persists.",
            ConvergenceWarning,
        )
    log_evidence = torch.stack([mode.log_evidence.double() for mode in found])
    trace = Trace("log evidence", log_evidence.cpu().numpy(), np.zeros(len(found)), settled)
    posterior = GaussianPosterior(
        torch.stack([mode.v.double() for mode in found], dim=1),
        torch.stack(
            [
                mode.lower.double() if modes is None else widened(mode.lower.double(), modes[:, :, k], effect.weights)
                for k, mode in enumerate(found)
            ]
        ),
        torch.arange(len(found), device=features.device),
        PROBIT,
    )
    return AroundMode(posterior, trace, log_evidence)


def widened(lower: Tensor, modes: Tensor, weights: Sequence[float]) -> Tensor:
    """The factor of the precision whose covariance is A⁻¹ + Σ w (v̂ − v̄)(v̂ − v̄)ᵀ, v̂ (effects, R) with weights w.

    With U = √w (v̂ − v̄) it is A − AU (I + UᵀAU)⁻¹ UᵀA, by the matrix inversion lemma.
    """
    weight = lower.new_tensor(weights)[:, None]
    u = (torch.sqrt(weight) * (modes - (weight * modes).sum(0))).T
    moved = lower @ (lower.T @ u)
    inner = cholesky(torch.eye(u.shape[1], dtype=u.dtype, device=u.device) + u.T @ moved, what="spread of the modes")
    taken = torch.linalg.solve_triangular(inner.lower, moved.T, upper=False)
    return cholesky(lower @ lower.T - taken.T @ taken, what="precision").lower


def _starts(features: Features, totals: Totals, effect: Callable[[], Effect]) -> list[Tensor | None]:
    """Where to begin in every column: the mode of every n-th bag where there are many, which costs little."""
    every = totals.bags.n_instances // EFFECT_ROWS
    if every <= 1:
        return [None] * len(totals.columns)
    some = totals.only(np.arange(0, len(totals.bags), every))
    design = whole_design(features, some.bags)
    return [evidence.find(design).v for evidence in some.evidences(features, effect)]
