"""Slopes and second derivatives of the laws of totals in the probit scores of rows, written out (theory section 15.4).

With θ = log p/q both laws are log P = Σ w log q + Λ(θ). For the saddle point (15.1), with tilted chances c and
v = c(1 − c), α = w v, β = w v(1 − 2c), γ = w v(1 − 6v), V = Σ α + σ², and t moving by dt/dθ = −α/V,

    ∂Λ/∂θ     = w c − ½ (β − α Σβ/V)/V
    ∂²Λ/∂θ∂θᵀ = diag(α − ½ (γ − β Σβ/V)/V) − (1/V + ½ Σγ/V³ − (Σβ)²/V⁴) ααᵀ
                − (Σβ/V³)(αβᵀ + βαᵀ) + (½/V²)(αγᵀ + γαᵀ + ββᵀ)                                            (15.6)

For a table (15.2) they are mean and covariance of the numbers y of the rows given what the bag states. Averaging yᵢ
multiplies the characteristic function at frequency j by wᵢ sᵢⱼ, sᵢⱼ = c e^{iωⱼ}/(1 − c + c e^{iωⱼ}), so with aⱼ the
share of frequency j in the probability of the statement

    E y = Re Σⱼ aⱼ w sⱼ,   E yyᵀ = Re Σⱼ aⱼ (w sⱼ)(w sⱼ)ᵀ + diag Re Σⱼ aⱼ w sⱼ(1 − sⱼ)                       (15.7)
"""

from typing import Protocol

import torch
from torch import Tensor

from bagwise.numerics.counting.totals import SmallTotals, saddle_point
from bagwise.numerics.linalg import weighted_gram
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import hazard, log_ndtr

_ENTRIES = 2**21  # of an array of rows, points, frequencies and columns that is worked on at once


class Expansion(Protocol):
    """A log likelihood of bags at Q points each, and its first two derivatives in the scores of their rows."""

    logs: Tensor  # (b, Q)
    slope: Tensor  # (n, Q)

    def curvature(self, weight: Tensor, rows: Tensor) -> Tensor:
        """Σ weight × rowsᵀ (second derivatives) rows, (R, R), over bags and points; weight (b, Q), rows (n, R)."""


def projected(values: Tensor, rows: Tensor, segments: Segments) -> Tensor:
    """Σ values × rows over every bag, (b, Q, R), from (n, Q) and (n, R)."""
    return segments.sum(values[:, :, None] * rows[:, None, :])


def crossed(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    """Σ weight x yᵀ over all dimensions but the last, (R, R)."""
    return (x * weight[..., None]).flatten(0, -2).T @ y.flatten(0, -2)


def crossed_both(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    """Σ weight (x yᵀ + y xᵀ)."""
    one = crossed(x, weight, y)
    return one + one.T


class _Odds:
    """Derivatives of log p, log q and θ in the scores z (n, Q)."""

    def __init__(self, z: Tensor) -> None:
        up, down = hazard(z), hazard(-z)
        self.p, self.q, self.theta = up, -down, up + down
        self.p_twice, self.q_twice = -up * (up + z), -down * (down - z)
        self.theta_twice = self.p_twice - self.q_twice


class SaddleExpansion:
    """(15.1) with (15.6); where nobody, or everybody, is stated the law is Σ w log q, or Σ w log p."""

    def __init__(self, z: Tensor, weight: Tensor, stated: Tensor, variance: Tensor, segments: Segments) -> None:
        found = saddle_point(z, weight, stated, variance, segments)
        self.logs, self._segments, self._people, self._odds = found.logs, segments, weight[:, None], _Odds(z)
        self._within = ~(found.at_none | found.at_all)[:, None]
        self._none, self._all = (segments.spread(end)[:, None] for end in (found.at_none, found.at_all))
        chance = torch.sigmoid(log_ndtr(z) - log_ndtr(-z) + segments.spread(found.tilt))
        v = chance * (1.0 - chance)
        self._alpha = self._people * v
        self._beta, self._gamma = self._alpha * (1.0 - 2.0 * chance), self._alpha * (1.0 - 6.0 * v)
        self._total = (segments.sum(self._alpha) + variance[:, None]).clamp(min=1e-300)
        self._skew = segments.sum(self._beta)
        total, lean = segments.spread(self._total), segments.spread(self._skew / self._total)
        self._first = self._people * chance - 0.5 * (self._beta - self._alpha * lean) / total
        self._own = self._alpha - 0.5 * (self._gamma - self._beta * lean) / total
        inside = self._people * self._odds.q + self._first * self._odds.theta
        self.slope = self._with_ends(inside, self._odds.q, self._odds.p)

    def _with_ends(self, inside: Tensor, none: Tensor, everyone: Tensor) -> Tensor:
        return torch.where(self._none, self._people * none, torch.where(self._all, self._people * everyone, inside))

    def curvature(self, weight: Tensor, rows: Tensor) -> Tensor:
        """As in ``Expansion``."""
        odds, total, skew = self._odds, self._total, self._skew
        own = self._people * odds.q_twice + self._first * odds.theta_twice + self._own * odds.theta.square()
        own = self._with_ends(own, odds.q_twice, odds.p_twice) * self._segments.spread(weight)
        alpha, beta, gamma = (
            projected(part * odds.theta, rows, self._segments) for part in (self._alpha, self._beta, self._gamma)
        )
        weight = weight * self._within
        kurtosis = self._segments.sum(self._gamma)
        square = 1.0 / total + 0.5 * kurtosis / total**3 - skew.square() / total**4
        found = weighted_gram(rows, own.sum(1)) - crossed(alpha, weight * square, alpha)
        found = found - crossed_both(alpha, weight * skew / total**3, beta)
        half = 0.5 * weight / total.square()
        return found + crossed_both(alpha, half, gamma) + crossed(beta, half, beta)


class TableExpansion:
    """(15.2) with (15.7)."""

    def __init__(self, small: SmallTotals, z: Tensor) -> None:
        at = small.tilted(z)
        self._small, self._odds, self._chance = small, _Odds(z), at.chance
        self.logs = torch.logsumexp(small.tilted_weights(at), dim=2)
        untilted = small.log_psi[:, None] - at.tilt[..., None] * small.count
        given = torch.exp(untilted - (self.logs - at.cumulant)[..., None]) / len(small.count)  # (b, Q, M)
        even, odd = given @ small.cosines.T, given @ small.sines.T
        cosine, sine = at.size * torch.cos(at.angle), at.size * torch.sin(at.angle)
        self._level = given.sum(2)  # a of frequency 0
        self._real, self._imaginary = 2.0 * (even * cosine + odd * sine), 2.0 * (even * sine - odd * cosine)
        self._mean = self._averaged(at.chance, _waves(at.chance, small.turns), slice(None))
        self.slope = small.people * self._odds.q + self._mean * self._odds.theta

    def _averaged(self, level: Tensor, waves: tuple[Tensor, Tensor], part: slice) -> Tensor:
        """Re Σⱼ aⱼ w xⱼ over some frequencies, (n, Q), of x real at frequency 0 and with these parts at the others."""
        spread, (real, imaginary) = self._small.segments.spread, waves
        found = (spread(self._real[..., part]) * real).sum(2) - (spread(self._imaginary[..., part]) * imaginary).sum(2)
        return self._small.people * (spread(self._level) * level + found)

    def curvature(self, weight: Tensor, rows: Tensor) -> Tensor:
        """As in ``Expansion``."""
        small, odds, chance = self._small, self._odds, self._chance
        mean = projected(self._mean * odds.theta, rows, small.segments)
        level = projected(small.people * chance * odds.theta, rows, small.segments)
        found = crossed(level, weight * self._level, level) - crossed(mean, weight, mean)
        scale, rest = (small.people * odds.theta)[..., None], chance * (1.0 - chance)
        own = small.people * odds.q_twice + self._mean * odds.theta_twice
        at_once = max(1, _ENTRIES // max(1, chance.numel() * rows.shape[1]))
        for start in range(0, len(small.turns), at_once):
            part = slice(start, start + at_once)
            wave, turned = _waves(chance, small.turns[part])
            left = wave - wave.square() + turned.square(), turned * (1.0 - 2.0 * wave)  # s(1 − s)
            own = own + self._averaged(rest, left, part) * odds.theta.square()
            rest = torch.zeros_like(rest)
            wave, turned = (projected((scale * values).flatten(1), rows, small.segments) for values in (wave, turned))
            real, imaginary = ((weight[..., None] * a[..., part]).flatten(1) for a in (self._real, self._imaginary))
            found = found + crossed(wave, real, wave) - crossed(turned, real, turned)
            found = found - crossed_both(wave, imaginary, turned)
        return found + weighted_gram(rows, (own * small.segments.spread(weight)).sum(1))


def _waves(chance: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of s, (n, Q, J)."""
    c, rest = chance[..., None], 1.0 - chance[..., None]
    over = 1.0 / (1.0 - 4.0 * c * rest * torch.sin(0.5 * turns).square())
    return c * (rest * torch.cos(turns) + c) * over, c * rest * torch.sin(turns) * over
