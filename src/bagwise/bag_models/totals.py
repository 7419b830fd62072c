"""Probit individuals in rows of many, with effects of their bag (theory section 15).

zᵢ = f(xᵢ) + e_g + noise, the same e_g for everyone in cell g of a bag. Seen from the number of positives the effects
are one number u per bag, of the law in ``cell_effects``. Given u the number of positives is a sum of binomial numbers,
and what the bag states has the probability Z_b(f + u). Integrated over u,

    log Z_b = log ∫ Z_b(f + u) p(u) du                                                                     (15.3)

by Gauss–Hermite quadrature around the most probable u, because what thousands of people state about u is much narrower
than its prior. All functions here are twice differentiable in the latent values.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.cell_effects import Cells, Effect
from bagwise.bag_models.cell_expansion import LawExpansion
from bagwise.bag_models.total_expansion import PartExpansion, TotalExpansion
from bagwise.bags import ragged_ranges
from bagwise.evidence.statements import COUNT, FRACTION, LABEL, NONE
from bagwise.evidence.totals import TotalStatements
from bagwise.numerics.counting.expansions import SaddleExpansion, TableExpansion
from bagwise.numerics.counting.sharing import redraw_pairs, share_out, tilted_chances, truncated_normal, whole_numbers
from bagwise.numerics.counting.totals import SmallTotals, log_between, log_total_density
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log_at_least_one, log_minus_log_ndtr, log_ndtr, log_pdf

# Nodes of the integral over u. Where all bags state numbers and effects are small it is so close to normal that five
# are as good as nine are for large ones; with a rougher integral the search for the mode would not come to rest.
NODES, FEW_NODES, SMALL_EFFECT = 9, 5, 0.3
_SCORINGS, _LONGEST_STEP, _NEAR = 40, 1.0, 0.02
_LEAST_VARIANCE = 1e-12
_MOST_CELLS = 64  # rows of a bag up to which numbers are drawn exactly; above, as normal ones


class _StatingBags(NamedTuple):
    """Bags of one kind of statement: their numbers, their rows, how many free individuals these stand for."""

    bags: Tensor
    rows: Tensor
    people: Tensor
    segments: Segments


class TotalBags:
    """What bags state, as a function of the scores of their rows and of the effect of the bag."""

    def __init__(self, stated: TotalStatements, dtype: torch.dtype, device: torch.device) -> None:
        self._stated, self._dtype, self._device = stated, dtype, device
        self.segments = Segments(torch.tensor(stated.offsets, device=device))
        small = np.zeros(len(stated.kind), dtype=bool)
        small[stated.small] = True
        self._counts = self._part((stated.kind == FRACTION) & ~small)
        self._ranges = self._part((stated.kind == COUNT) & ~small)
        self._labels = self._part(stated.kind == LABEL)
        self._tabled = self._part(small)
        self._mean, self._variance, self._low, self._high = (
            self._tensor(part) for part in (stated.mean, stated.variance, stated.low, stated.high)
        )
        table = self._tensor(stated.tables)
        self._small = SmallTotals(self._tabled.people, table, self._tabled.segments) if small.any() else None
        self._known = self._tensor(np.nan_to_num(stated.known))
        self._coins = torch.as_tensor(
            np.where(np.isnan(stated.known), 0.0, stated.weight), dtype=self._dtype, device=self._device
        )
        cell = torch.as_tensor(stated.cell, device=device)
        self.cells = Cells(self._tensor(stated.weight), cell, self.segments)
        self.only_numbers = bool(np.isin(stated.kind, (FRACTION, NONE)).all()) and not bool((self._coins > 0).any())
        self._effects: Tensor | None = None  # (b, 1) the most probable effects, where the last search ended

    def _part(self, chosen: NDArray[np.bool_]) -> _StatingBags:
        numbers = np.flatnonzero(chosen)
        sizes = np.diff(self._stated.offsets)[numbers]
        rows = ragged_ranges(self._stated.offsets[numbers], sizes) if len(numbers) else np.zeros(0, dtype=np.int64)
        offsets = torch.as_tensor(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), device=self._device)
        return _StatingBags(
            torch.as_tensor(numbers, device=self._device),
            torch.as_tensor(rows, device=self._device),
            self._tensor(self._stated.free[rows]),
            Segments(offsets),
        )

    def _tensor(self, values: NDArray[np.float64]) -> Tensor:
        return torch.as_tensor(values, dtype=self._dtype, device=self._device)

    # ------------------------------------------------------------ given the effects

    def conditional(self, z: Tensor) -> Tensor:
        """log P(what a bag states | scores z), (b, Q), at scores (n, Q)."""
        found = z.new_zeros(len(self.segments), z.shape[1])
        for part, logs in (
            (self._counts, self._count_logs),
            (self._ranges, self._range_logs),
            (self._labels, self._label_logs),
        ):
            if len(part.bags):
                found = found.index_add(0, part.bags, logs(part, z[part.rows]))
        if self._small is not None:
            found = found.index_add(0, self._tabled.bags, self._small.log_z(z[self._tabled.rows]))
        if bool((self._coins > 0).any()):
            own = log_ndtr(torch.where(self._known[:, None] == 1, z, -z))
            found = found + self.segments.sum(self._coins[:, None] * own)
        return found

    def _count_logs(self, part: _StatingBags, z: Tensor) -> Tensor:
        return log_total_density(z, part.people, self._mean[part.bags], self._variance[part.bags], part.segments)

    def _range_logs(self, part: _StatingBags, z: Tensor) -> Tensor:
        """By the normal law; half a person on either side makes room for whole numbers."""
        mean, variance = _count_moments(part, z)
        ends = (
            (end[part.bags][:, None] + half - mean) / torch.sqrt(variance)
            for end, half in ((self._low, -0.5), (self._high, 0.5))
        )
        return log_between(*ends)

    def _label_logs(self, part: _StatingBags, z: Tensor) -> Tensor:
        """Closed form at any total: all negative, or not all."""
        people, label = part.people[:, None], self._mean[part.bags][:, None]
        negative = part.segments.sum(people * log_ndtr(-z))
        present = torch.log(people.clamp(min=1e-300))
        positive = log_at_least_one(part.segments.logsumexp(present + log_minus_log_ndtr(z)))
        found, noise = torch.where(label == 1, positive, negative), self._stated.label_noise
        return (
            found
            if noise == 0
            else torch.logaddexp(found + math.log1p(-2.0 * noise), found.new_tensor(math.log(noise)))
        )

    # ------------------------------------------------------------ integrated over the effects

    def logs(self, z: Tensor, lever: Tensor, effect: Effect) -> Tensor:
        """(15.3) of every bag, (b,), at scores z (n,); an effect u moves the score of row i by ``lever[i]`` u."""
        if effect.absent():
            return self.conditional(z[:, None])[:, 0]
        return torch.logsumexp(self._weighted_nodes(z, lever, effect)[1], dim=1)

    def effect_nodes(self, z: Tensor, lever: Tensor, effect: Effect) -> tuple[Tensor, Tensor]:
        """Values of the effect and their posterior weights, (b, Q) each."""
        u, logs = self._weighted_nodes(z, lever, effect)
        return u, torch.softmax(logs, dim=1)

    def _weighted_nodes(self, z: Tensor, lever: Tensor, effect: Effect) -> tuple[Tensor, Tensor]:
        """Nodes u and log [w(u) Z_b(f + u) p(u)], (b, Q) each; the nodes are held fixed in derivatives."""
        u, log_w = self._nodes(z, lever, effect)
        given = self.conditional(z[:, None] + lever[:, None] * self.segments.spread(u))
        return u, given + self.cells.log_law(u, z[:, None], lever[:, None], effect) + log_w

    def _nodes(self, z: Tensor, lever: Tensor, effect: Effect) -> tuple[Tensor, Tensor]:
        """Nodes around the most probable effect of every bag, and the logs of their weights."""
        centre, spread = self.most_probable(
            z.detach()[:, None], lever.detach()[:, None], effect.detach(), self._effects
        )
        self._effects = centre
        few = self.only_numbers and float((effect.size * lever.max()).detach()) <= SMALL_EFFECT
        places, weights = np.polynomial.hermite_e.hermegauss(FEW_NODES if few else NODES)
        log_w = self._tensor(np.log(weights) + 0.5 * np.square(places))
        return centre + spread * self._tensor(places), log_w + torch.log(spread)

    @torch.no_grad()
    def expansion(self, z: Tensor, lever: Tensor, effect: Effect) -> TotalExpansion:
        """``logs`` with its derivatives in closed form, for bags that state numbers (``only_numbers``)."""
        if effect.absent():
            return TotalExpansion(self._expanded(z[:, None]), None, z.new_zeros(len(self.segments), 1), self.segments)
        u, log_w = self._nodes(z, lever, effect)
        given = self._expanded(z[:, None] + lever[:, None] * self.segments.spread(u))
        law = LawExpansion(self.cells, u, z[:, None], lever[:, None], effect)
        return TotalExpansion(given, law, log_w, self.segments)

    def _expanded(self, z: Tensor) -> list[PartExpansion]:
        found, counts = list[PartExpansion](), self._counts
        if len(counts.bags):
            stated = (self._mean[counts.bags], self._variance[counts.bags])
            saddle = SaddleExpansion(z[counts.rows], counts.people, *stated, counts.segments)
            found.append(PartExpansion(counts.bags, counts.rows, saddle))
        if self._small is not None:
            table = TableExpansion(self._small, z[self._tabled.rows])
            found.append(PartExpansion(self._tabled.bags, self._tabled.rows, table))
        return found

    def most_probable(
        self, z: Tensor, lever: Tensor, effect: Effect, start: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The most probable effect of every bag and its spread at scores (n, Q), (b, Q) each; levers (n, Q or 1).

        Fisher scoring with bounded steps, from 0 or from ``start`` (from 0 where a search that failed left no number).
        """
        u = z.new_zeros(len(self.segments), z.shape[1]) if start is None else torch.nan_to_num(start)
        for _ in range(_SCORINGS):
            slope, curvature = self._slopes(u, z, lever, effect)
            spread = curvature.rsqrt()
            step = (slope * spread.square()).clamp(-_LONGEST_STEP, _LONGEST_STEP)
            u = u + step
            if bool((step.abs() <= _NEAR * spread).all()):
                break
        return u, spread

    def _slopes(self, u: Tensor, z: Tensor, lever: Tensor, effect: Effect) -> tuple[Tensor, Tensor]:
        """Slope and curvature in u of what is integrated; where bags state numbers, by their normal law."""
        if self.only_numbers:
            with torch.no_grad():
                steep, centre = self.cells.steepness(u, z, lever, effect), self.cells.centre(z, lever, effect)
                pull, strength = self._number_slopes(z + lever * self.segments.spread(u), lever)
                return pull - steep * (steep * u - centre), strength + steep.square()
        with torch.enable_grad():
            here = u.detach().requires_grad_()
            moved = z + lever * self.segments.spread(here)
            value = self.conditional(moved).sum() + self.cells.log_law(here, z, lever, effect).sum()
            (slope,) = torch.autograd.grad(value, here)
        with torch.no_grad():
            prior = self.cells.steepness(u, z, lever, effect).square()
            return slope, self._strength(moved.detach(), lever) + prior

    def _number_slopes(self, z: Tensor, lever: Tensor) -> tuple[Tensor, Tensor]:
        """(m − μ) D / V and D²/V of the numbers that bags state, (b, Q) each; D is the slope of their mean μ in u."""
        pull, strength = z.new_zeros(2, len(self.segments), z.shape[1])
        for part in (self._counts, self._tabled):
            if len(part.bags):
                own = z[part.rows]
                mean, variance = _count_moments(part, own)
                slope = part.segments.sum(part.people[:, None] * lever[part.rows] * torch.exp(log_pdf(own)))
                ratio = slope / (variance + self._variance[part.bags][:, None])
                pull[part.bags] = ratio * (self._mean[part.bags][:, None] - mean)
                strength[part.bags] = ratio * slope
        return pull, strength

    def _strength(self, z: Tensor, lever: Tensor) -> Tensor:
        """About how much the statements tell about the effect of their bag, (b, Q), at scores (n, Q)."""
        found = z.new_zeros(len(self.segments), z.shape[1])
        for part, noise in (
            (self._counts, self._variance),
            (self._ranges, self._variance),
            (self._tabled, self._variance),
        ):
            if len(part.bags):
                own = z[part.rows]
                slope = part.segments.sum(part.people[:, None] * lever[part.rows] * torch.exp(log_pdf(own)))
                found = found.index_add(
                    0, part.bags, slope.square() / (_count_moments(part, own)[1] + noise[part.bags][:, None])
                )
        if len(self._labels.bags):
            pull = torch.stack([self._label_pull(column) for column in z.T], dim=1) * lever[self._labels.rows]
            found = found.index_add(0, self._labels.bags, self._labels.segments.sum(pull).square())
        if bool((self._coins > 0).any()):
            coin = torch.exp(2.0 * log_pdf(z) - log_ndtr(z) - log_ndtr(-z))
            found = found + self.segments.sum(self._coins[:, None] * lever.square() * coin)
        return found

    # ------------------------------------------------------------ information about v

    def information(self, rows: Tensor, z: Tensor, lever: Tensor, effect: Effect, times: Tensor) -> Tensor:
        """What the bags tell about v, (R, R): the Fisher information of their numbers, the effects integrated out.

        In (v, u_b) it is Σ d dᵀ with d = (Jacobian of the number) √(Var k − Var(k | statement)) / Var k; u_b takes
        a aᵀ/(c + t'(u)²) away, a = Σ e d, c = Σ e², e being the last entry of d. Every bag counts ``times`` (b,)
        times.
        """
        total, every = rows.new_zeros(rows.shape[1], rows.shape[1]), []
        if not effect.absent():
            centre = self._centre(z, lever, effect)
            prior = self.cells.steepness(centre[:, None], z[:, None], lever[:, None], effect)[:, 0].square()
            z = z + lever * self.segments.spread(centre)
        for owner, directions, pull in self._directions(rows, z, lever):
            total = total + directions.T @ (times[owner, None] * directions)
            every.append((owner, pull[:, None] * directions, pull.square()))
        if effect.absent() or not every:
            return total
        shared = rows.new_zeros(len(self.segments), rows.shape[1])
        strength = rows.new_zeros(len(self.segments))
        for owner, crossed, square in every:
            shared, strength = shared.index_add(0, owner, crossed), strength.index_add(0, owner, square)
        taken = shared / torch.sqrt(strength + prior)[:, None]
        return total - taken.T @ (times[:, None] * taken)

    def _centre(self, z: Tensor, lever: Tensor, effect: Effect) -> Tensor:
        """The effect of every bag, (b,): the most probable one, or its mean, which has derivatives."""
        if not torch.is_grad_enabled():
            self._effects, _ = self.most_probable(z[:, None], lever[:, None], effect, self._effects)
            return self._effects[:, 0]
        u, weight = self.effect_nodes(z, lever, effect)
        return (u * weight).sum(1)

    def _directions(self, rows: Tensor, z: Tensor, lever: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For every statement its bag, √information × Jacobian in v, and the same in u_b."""
        found = []
        for part, factor in (
            (self._counts, self._count_factor),
            (self._ranges, self._range_factor),
            (self._tabled, self._table_factor),
        ):
            if len(part.bags):
                own = z[part.rows]
                pull = part.people * torch.exp(log_pdf(own)) * part.segments.spread(factor(part, own))
                found.append((part.bags, *_jacobian(part, pull, rows, lever)))
        if len(self._labels.bags):
            found.append((self._labels.bags, *_jacobian(self._labels, self._label_pull(z), rows, lever)))
        coins = (self._coins > 0).nonzero()[:, 0]
        if len(coins):
            own = z[coins]
            pull = torch.sqrt(self._coins[coins]) * torch.exp(log_pdf(own) - 0.5 * (log_ndtr(own) + log_ndtr(-own)))
            found.append((self.segments.index[coins], pull[:, None] * rows[coins], pull * lever[coins]))
        return found

    def _count_factor(self, part: _StatingBags, z: Tensor) -> Tensor:
        _, variance = _count_moments(part, z[:, None])
        return torch.rsqrt(variance[:, 0] + self._variance[part.bags])

    def _range_factor(self, part: _StatingBags, z: Tensor) -> Tensor:
        """Var k − Var(k | range) of the normal law, over (Var k)²."""
        mean, variance = (value[:, 0] for value in _count_moments(part, z[:, None]))
        lower, upper = (
            (end[part.bags] + half - mean) / torch.sqrt(variance)
            for end, half in ((self._low, -0.5), (self._high, 0.5))
        )
        log_z = log_between(lower, upper)
        at_lower, at_upper = torch.exp(log_pdf(lower) - log_z), torch.exp(log_pdf(upper) - log_z)
        gained = (at_lower - at_upper).square() + upper * at_upper - lower * at_lower
        return torch.sqrt(gained.clamp(1e-12, 1.0) / variance)

    def _table_factor(self, part: _StatingBags, z: Tensor) -> Tensor:
        assert self._small is not None
        weights = torch.softmax(self._small.log_weights(z[:, None])[:, 0], dim=1)
        count = torch.arange(weights.shape[1], dtype=self._dtype, device=self._device)
        left = weights @ count.square() - (weights @ count).square()
        variance = _count_moments(part, z[:, None])[1][:, 0]
        return torch.sqrt((variance - left).clamp(min=1e-12)) / variance

    def _label_pull(self, z: Tensor) -> Tensor:
        """∂π/∂z / √(π(1 − π)) of "at least one"."""
        part, own = self._labels, z[self._labels.rows]
        negative = part.segments.sum(part.people * log_ndtr(-own))
        present = torch.log(part.people.clamp(min=1e-300))
        positive = log_at_least_one(part.segments.logsumexp(present + log_minus_log_ndtr(own)))
        slope = part.people * torch.exp(log_pdf(own) - log_ndtr(-own))
        return slope * part.segments.spread(torch.exp(0.5 * (negative - positive)))

    # ------------------------------------------------------------ draws

    @torch.no_grad()
    def draw_cells(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draws of the number of positives behind every row given the statements, (n, Q), at scores (n, Q)."""
        free = self._tensor(self._stated.free)[:, None]
        total = self._draw_totals(z, free, generator)
        chance = tilted_chances(z, free, total, self.segments)
        drawn = share_out(chance, free, total, self.segments, generator)
        if int(self.segments.sizes.max()) <= _MOST_CELLS:
            drawn = whole_numbers(drawn, free, total, self.segments)
            drawn = redraw_pairs(drawn, free, torch.logit(chance, eps=1e-12), self.segments, generator)
        return drawn + self._coins[:, None] * self._known[:, None]

    def _draw_totals(self, z: Tensor, free: Tensor, generator: torch.Generator) -> Tensor:
        """Draws of the number of positives of every bag among those not known, (b, Q): normal, within the statement."""
        chance, kind = torch.special.ndtr(z), torch.as_tensor(self._stated.kind, device=z.device)[:, None]
        mean = self.segments.sum(free * chance)
        variance = self.segments.sum(free * chance * (1.0 - chance)).clamp(min=_LEAST_VARIANCE)
        low = torch.where(kind == COUNT, self._low[:, None] - 0.5, -torch.inf)
        high = torch.where(kind == COUNT, self._high[:, None] + 0.5, torch.inf)
        label = self._mean[:, None]
        low = torch.where((kind == LABEL) & (label == 1), 0.5, low)
        high = torch.where((kind == LABEL) & (label == 0), 0.5, high)
        noise = self._variance[:, None]
        gain = torch.where(kind == FRACTION, variance / (variance + noise), torch.zeros_like(variance))
        centre, spread = mean + gain * (label - mean), torch.sqrt(variance * (1.0 - gain))
        drawn = truncated_normal(centre, spread, low, high, generator)
        exact = (kind == FRACTION) & (noise == 0)
        drawn = torch.where(exact, label.expand_as(drawn), drawn).round()
        return drawn.clamp(min=0.0).minimum(self.segments.sum(free))


def _count_moments(part: _StatingBags, z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the number of positives given scores z (n, Q), (b, Q) each."""
    people, chance = part.people[:, None], torch.special.ndtr(z)
    return part.segments.sum(people * chance), part.segments.sum(people * chance * (1.0 - chance)) + _LEAST_VARIANCE


def _jacobian(part: _StatingBags, pull: Tensor, rows: Tensor, lever: Tensor) -> tuple[Tensor, Tensor]:
    return part.segments.sum(pull[:, None] * rows[part.rows]), part.segments.sum(pull * lever[part.rows])
