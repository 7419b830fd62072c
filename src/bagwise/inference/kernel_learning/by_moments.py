"""A Laplace evidence for bags whose counts are pinned down, by the first two moments of the count (theory section 4.2).

Messages to single instances cannot carry what "exactly k of n" says, and expectation propagation does not settle on
large bags under such evidence. But a count is a sum of many coins, so its law given f is close to normal, and the
evidence is close to an observation of it: with k̄ and σ² the mean and variance of k under the potential,

    ℓ_b = log N(k̄_b; Σ p_i, Σ p_i q_i + σ_b²),   p_i = cdf(φ̃_iᵀv)                                            (4.5)

A bag with a label adds the exact log of its probability π_b instead. With the Fisher information of all bags

    A = I + Σ_b j_b j_bᵀ / V_b                                                                               (4.6)
        j_b = Φ̃_bᵀ pdf(Φ̃_b v), V_b = Σ pq + σ² (counts);   j_b = ∇π_b, V_b = π_b(1 − π_b) (labels)
    log Z ≈ Σ_b ℓ_b(v̂) − ½ |v̂|² − ½ log det A(v̂),   v̂ the mode                                             (4.7)

This evidence serves to choose a kernel, where only its shape matters; the posterior is found by other means. A bag of
weight w has w ℓ_b and w times its information.
"""

import torch
from torch import Tensor

from bagwise.bag_models.counts import ChunkEvidence, Tabled
from bagwise.inference.laplace.around_mode import ModeEvidence, Rows
from bagwise.numerics.none_or_some import none_or_some
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import LOG_2PI, log_ndtr, log_pdf


class MomentEvidence(ModeEvidence):
    """(4.7) for the moments (4.5) of counts and for labels."""

    def __init__(self, evidence: ChunkEvidence, segments: Segments) -> None:
        self._labels, self._segments = evidence.labels[:, 0], segments
        self._times = evidence.weights.of_bags(torch.ones_like(evidence.labels))[:, 0]
        part = evidence.tabled[0]
        self._counts = None if part is None else _Counts(part, self._times[part.bags])

    def _log_likelihood(self, rows: Rows, z: Tensor) -> Tensor:
        total = (self._times * self._label_logs(z)).sum()
        return total if self._counts is None else total + self._counts.logs(z).sum()

    def _information(self, rows: Rows, z: Tensor) -> Tensor:
        directions = [self._label_directions(rows.scaled, z)]
        if self._counts is not None:
            directions += self._counts.directions(rows.scaled, z)
        stacked = torch.cat(directions)
        return stacked.T @ stacked

    def _label_logs(self, z: Tensor) -> Tensor:
        logs = none_or_some(z, self._segments)
        log_p = torch.where(self._labels == 1, logs.some, logs.none)
        return log_p.masked_fill(torch.isnan(self._labels), 0.0)

    def _label_directions(self, rows: Tensor, z: Tensor) -> Tensor:
        directions = torch.sqrt(self._times)[:, None] * _bernoulli_directions(rows, z, self._segments)
        return directions[~torch.isnan(self._labels)]


class _Counts:
    """The bags that speak through tables: moments of their potentials, and known instances as coins of their own."""

    def __init__(self, part: Tabled, times: Tensor) -> None:
        self._rows, self._known = part.rows, part.known
        sizes = part.potentials.sizes
        self._segments = Segments(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
        self._times, self._row_times = times, self._segments.spread(times)
        self._mean, self._variance = _moments(part)
        self._states = torch.isfinite(self._mean)
        self._fixed = ~torch.isnan(part.known)

    def logs(self, z: Tensor) -> Tensor:
        """ℓ of every bag with a varying potential, and log p of every known instance."""
        own = z[self._rows]
        expected, variance = self._law(own)
        off = torch.where(self._states, self._mean, expected) - expected
        counts = -0.5 * self._times * (LOG_2PI + torch.log(variance) + off.square() / variance)
        coins = self._row_times * log_ndtr(torch.where(self._known == 1, own, -own))
        return torch.cat([counts[self._states], coins[self._fixed]])

    def directions(self, rows: Tensor, z: Tensor) -> list[Tensor]:
        """j_b / √V_b of the bags and of the known instances."""
        own, features = z[self._rows], rows[self._rows]
        density = torch.exp(log_pdf(own))
        _, variance = self._law(own)
        free = density.masked_fill(self._fixed, 0.0)
        counts = self._segments.sum(free[:, None] * features) * torch.sqrt(self._times / variance)[:, None]
        spread = torch.exp(0.5 * (log_ndtr(own) + log_ndtr(-own)))
        coins = (torch.sqrt(self._row_times) * density / spread)[:, None] * features
        return [counts[self._states], coins[self._fixed]]

    def _law(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the observed count: Σ p and Σ pq + σ², known instances counted as they are."""
        p = torch.where(self._fixed, torch.nan_to_num(self._known), torch.special.ndtr(own))
        spread = self._segments.sum(p * (1.0 - p))
        return self._segments.sum(p), spread + self._variance + _LEAST_VARIANCE


_LEAST_VARIANCE = 1.0 / 12.0  # of a whole number taken for a continuous one


def _moments(part: Tabled) -> tuple[Tensor, Tensor]:
    """Mean and variance of k under the normalised potential; NaN and 0 where it is constant and states nothing."""
    sizes, log_psi = part.potentials.sizes, part.potentials.log_psi
    cells = Segments(torch.cat([sizes.new_zeros(1), (sizes + 1).cumsum(0)]))
    k = torch.arange(len(log_psi), device=log_psi.device) - cells.spread(cells.offsets[:-1])
    weight = torch.exp(log_psi - cells.spread(cells.logsumexp(log_psi)))
    mean = cells.sum(weight * k)
    variance = cells.sum(weight * (k - cells.spread(mean)).square())
    constant = cells.max(log_psi) == -cells.max(-log_psi)
    return mean.masked_fill(constant, torch.nan), variance.masked_fill(constant, 0.0)


def _bernoulli_directions(rows: Tensor, z: Tensor, segments: Segments) -> Tensor:
    """∇π / √(π(1 − π)) of "at least one": ∇π = e^S Σ h(−z_i) φ̃_i, so the factor in front is exp((S − log π)/2)."""
    logs = none_or_some(z, segments)
    pull = torch.exp(log_pdf(z) - logs.negative)
    return torch.exp(0.5 * (logs.none - logs.some))[:, None] * segments.sum(pull[:, None] * rows)
