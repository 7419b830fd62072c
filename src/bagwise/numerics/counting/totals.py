"""The number of positives among many individuals who come in rows of w equal ones: its law by a saddle point.

k = Σ Binomial(wᵢ, pᵢ) has the cumulant function K(t) = Σ wᵢ log(qᵢ + pᵢ eᵗ), and k + N(0, σ²) has K(t) + σ²t²/2. With t
where the derivative of that is the stated number m,

    log density(m) ≈ K(t) + σ²t²/2 − t m − ½ log 2π(K''(t) + σ²)                                          (15.1)

(Daniels 1954, equation (2.4)). Its relative error is of the order 1/K'', and hardly depends on the probabilities: for
rows that are alike and σ = 0 it is that of Stirling's formula, which is known and taken away. The two ends, no positive
and nobody else, are exact. A row costs the same whatever it stands for.

Small totals need no approximation: after tilting, the characteristic function at M > n frequencies gives the law,

    P(k) eᵗᵏ⁻ᴷ⁽ᵗ⁾ = (1/M) Σⱼ e^{−iωⱼk} Π (1 − cᵢ + cᵢ e^{iωⱼ})^{wᵢ},   ωⱼ = 2πj/M, c the tilted chances       (15.2)

which holds for every t; the one chosen keeps all digits where the evidence is.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.segments import Segments
from bagwise.numerics.special import LOG_2PI, log_ndtr

_BISECTIONS = 60
_CLOSE = 1e-6  # standard deviations of the number by which its tilted mean may still be off; two steps follow


class SaddlePoint(NamedTuple):
    """(15.1) of every bag and the t that it is taken at, (b, Q); where nobody, or everybody, is stated, (b,)."""

    logs: Tensor
    tilt: Tensor
    at_none: Tensor
    at_all: Tensor


def log_total_density(z: Tensor, weight: Tensor, stated: Tensor, variance: Tensor, segments: Segments) -> Tensor:
    """(15.1) for every bag, (b, Q), at probit scores z (n, Q): twice differentiable in z.

    ``weight`` (n,) are w, ``stated`` and ``variance`` (b,) are m and σ²; a variance of 0 says that m is the count.
    """
    return saddle_point(z, weight, stated, variance, segments).logs


def saddle_point(z: Tensor, weight: Tensor, stated: Tensor, variance: Tensor, segments: Segments) -> SaddlePoint:
    """(15.1) with what belongs to it, as in ``log_total_density``."""
    log_p, log_q = log_ndtr(z), log_ndtr(-z)
    people, total = weight[:, None], segments.sum(weight)
    none, everyone = (segments.sum(people * part) for part in (log_q, log_p))
    at_none, at_all = (stated <= 0) & (variance == 0), (stated >= total) & (variance == 0)
    inside = torch.where(at_none | at_all, 0.5 * total, stated)
    logs, tilt = _Law(log_p - log_q, people, inside[:, None], variance[:, None], segments).log_density()
    found = none + logs + stirling_excess(total, inside, variance)[:, None]
    found = torch.where(at_none[:, None], none, torch.where(at_all[:, None], everyone, found))
    return SaddlePoint(found, tilt, at_none, at_all)


def stirling_excess(total: Tensor, count: Tensor, variance: Tensor) -> Tensor:
    """log of the binomial coefficient less what (15.1) takes it for; 0 where the count is not exact."""
    exact = torch.lgamma(total + 1.0) - torch.lgamma(count + 1.0) - torch.lgamma(total - count + 1.0)
    rest = total - count
    entropy = torch.xlogy(total, total) - torch.xlogy(count, count) - torch.xlogy(rest, rest)
    leading = entropy - 0.5 * (LOG_2PI + torch.log((count * rest / total).clamp(min=1e-300)))
    return torch.where((variance == 0) & (count > 0) & (rest > 0), exact - leading, torch.zeros_like(total))


class TiltedTable(NamedTuple):
    """(15.2) of bags that state a table, at scores (n, Q): t, tilted chances, size and angle of the product, law."""

    tilt: Tensor  # (b, Q)
    cumulant: Tensor  # (b, Q) K(t)
    chance: Tensor  # (n, Q)
    size: Tensor  # (b, Q, J)
    angle: Tensor  # (b, Q, J)
    law: Tensor  # (b, Q, M)


class SmallTotals:
    """Laws by (15.2) of bags that state a table log ψ (b, M), k = 0 … M − 1 with M odd; −inf where k is impossible."""

    def __init__(self, weight: Tensor, log_psi: Tensor, segments: Segments) -> None:
        self.people, self.log_psi, self.segments = weight[:, None], log_psi, segments
        psi = torch.softmax(log_psi, dim=1)
        self.count = torch.arange(log_psi.shape[1], dtype=log_psi.dtype, device=log_psi.device)
        mean = psi @ self.count
        self._variance = (psi @ self.count.square() - mean.square()).clamp(min=0.0)[:, None]
        self._stated = mean.clamp(min=0.3).minimum(segments.sum(weight) - 0.3)[:, None]  # no tilt goes to the very end
        half = self.count[1 : (len(self.count) + 1) // 2]
        self.turns = half * (2.0 * math.pi / len(self.count))  # ω₁ … ω_J; the others are these with the other sign
        waves = self.turns[:, None] * self.count
        self.cosines, self.sines = torch.cos(waves), torch.sin(waves)  # (J, M)

    def log_z(self, z: Tensor) -> Tensor:
        """log Σ ψ(k) P(k), (b, Q), at scores z (n, Q): exact and twice differentiable."""
        return torch.logsumexp(self.log_weights(z), dim=2)

    def log_weights(self, z: Tensor) -> Tensor:
        """log ψ(k) P(k), (b, Q, M)."""
        return self.tilted_weights(self.tilted(z))

    def tilted_weights(self, at: TiltedTable) -> Tensor:
        """log ψ(k) P(k), (b, Q, M)."""
        untilted = at.cumulant[..., None] + torch.log(at.law) - at.tilt[..., None] * self.count
        return untilted + self.log_psi[:, None, :]

    def tilted(self, z: Tensor) -> TiltedTable:
        """The law at scores z (n, Q); what rounding leaves of impossible counts is held above 0."""
        log_p, log_q = log_ndtr(z), log_ndtr(-z)
        t = _Law(log_p - log_q, self.people, self._stated, self._variance, self.segments).tilt()
        spread = self.segments.spread(t)
        either = torch.logaddexp(log_q, log_p + spread)
        chance = torch.exp(log_p + spread - either)
        size, angle = self._product(chance)
        total = 1.0 + 2.0 * ((size * torch.cos(angle)) @ self.cosines + (size * torch.sin(angle)) @ self.sines)
        law = (total / len(self.count)).clamp(min=1e-18)
        return TiltedTable(t, self.segments.sum(self.people * either), chance, size, angle, law)

    def _product(self, chance: Tensor) -> tuple[Tensor, Tensor]:
        """Size and angle of Π (1 − c + c e^{iω})^w, (b, Q, J)."""
        c, turns, people = chance[..., None], self.turns, self.people[..., None]
        size = 0.5 * torch.log1p(-4.0 * c * (1.0 - c) * torch.sin(0.5 * turns).square())
        angle = torch.atan2(c * torch.sin(turns), 1.0 - 2.0 * c * torch.sin(0.5 * turns).square())
        return torch.exp(self.segments.sum(people * size)), self.segments.sum(people * angle)


def tilt_of(logits: Tensor, people: Tensor, count: Tensor, segments: Segments) -> Tensor:
    """t at which the expected number of each bag is ``count`` (b, Q), strictly between none and everyone."""
    return _Law(logits, people, count, torch.zeros_like(count), segments).tilt()


class _Law:
    """K(t) − Σ w log q and its derivatives for rows with some logits, all (b, Q)."""

    def __init__(self, logits: Tensor, people: Tensor, stated: Tensor, variance: Tensor, segments: Segments) -> None:
        self._logits, self._people, self._segments = logits, people, segments
        self._stated, self._variance = stated, variance

    def log_density(self) -> tuple[Tensor, Tensor]:
        """(15.1) without Σ w log q, and t."""
        t = self.tilt()
        # Two steps of Newton's method from the solution move t as the equation asks for, in first and second order.
        for _ in range(2):
            mean, curvature = self._slopes(t)
            t = t + (self._stated - mean) / curvature
        _, curvature = self._slopes(t)
        cumulant = self._segments.sum(
            self._people * torch.nn.functional.softplus(self._logits + self._segments.spread(t))
        )
        logs = cumulant + 0.5 * self._variance * t.square() - t * self._stated - 0.5 * (LOG_2PI + torch.log(curvature))
        return logs, t

    def _slopes(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of k + N(0, σ²) after tilting by t."""
        chance = torch.sigmoid(self._logits + self._segments.spread(t))
        mean = self._segments.sum(self._people * chance) + self._variance * t
        spread = self._segments.sum(self._people * chance * (1.0 - chance)) + self._variance
        return mean, spread.clamp(min=1e-300)

    def _step(self, mean: Tensor, missing: Tensor, curvature: Tensor, total: Tensor) -> Tensor:
        """Newton's step; for exact numbers in their log odds, which is the whole way where rows are alike."""
        rest, wanted = (total - mean).clamp(min=1e-300), self._stated
        odds = torch.log(wanted / mean.clamp(min=1e-300)) - torch.log((total - wanted).clamp(min=1e-300) / rest)
        return torch.where(self._variance == 0, odds * mean * rest / (total * curvature), missing / curvature)

    @torch.no_grad()
    def tilt(self) -> Tensor:
        """t by Newton's method inside a bracket: between 0 and what the most and least likely rows ask for."""
        total = self._segments.sum(self._people)
        share = self._stated / total
        odds = torch.log(share.clamp(min=1e-300)) - torch.log1p(-share.clamp(max=1.0 - 1e-16))
        present = self._people > 0
        largest = self._segments.max(self._logits.masked_fill(~present, -torch.inf))
        smallest = -self._segments.max((-self._logits).masked_fill(~present, -torch.inf))
        low, high = torch.minimum(odds - largest, odds * 0) - 1.0, torch.maximum(odds - smallest, odds * 0) + 1.0
        t = torch.zeros_like(low)
        for _ in range(_BISECTIONS):
            mean, curvature = self._slopes(t)
            missing = self._stated - mean
            moving = missing.abs() > _CLOSE * (torch.sqrt(curvature) + 1e-3 * self._stated)
            if not bool(moving.any()):
                break
            low, high = torch.where(missing < 0, low, t), torch.where(missing < 0, t, high)
            step = t + self._step(mean, missing, curvature, total)
            step = torch.where((step > low) & (step < high), step, 0.5 * (low + high))
            t = torch.where(moving, step, t)
        return t


def log_between(lower: Tensor, upper: Tensor) -> Tensor:
    """log(cdf(upper) − cdf(lower)) of the standard normal law, right in both tails."""
    flip = lower > 0
    a, b = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    gap = (log_ndtr(a) - log_ndtr(b)).clamp(max=-math.ldexp(1.0, -40))
    found: Tensor = log_ndtr(b) + torch.log(-torch.expm1(gap))
    return found
