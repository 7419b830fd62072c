"""Sites of whole bags that match moments: the probability of a label along one direction of v (theory section 13.3).

A line through g(v) is a good likelihood only where q(v) is narrow: g grows without end where a label is certain, and a
line there says more about v than the label does. So once lines have settled, every labelled bag is looked at along one
direction a, with u = aᵀv. Given u, v is the same Gaussian under q and under the cavity of the bag's own site, which is
a function of u alone. Therefore

    ψ(u) = E[P(label | v) | u],   v = v_s + Σa (u − aᵀv_s)/(aᵀΣa) over draws v_s of q = N(m, Σ)               (13.4)

is all that the site needs, and its moments under the cavity of u are sums over a few equidistant places, as narrow as q
and reaching beyond all of it. a = Σᵢ E[h(−zᵢ)]/sᵢ φᵢ is the average slope of the log probability of no positive.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.counts import ChunkEvidence
from bagwise.gp.features import Design
from bagwise.inference.bag_propagation import Look, draws_of, in_runs, labelled_design, standardised
from bagwise.inference.bags_as_rows import BagRows, Pooled, labelled, pooled_chunk
from bagwise.inference.belief import Belief
from bagwise.inference.chunks import Chunk, Sums
from bagwise.inference.expectation_propagation import Sites
from bagwise.numerics.blocks import in_stretches
from bagwise.numerics.segments import BagWeights, Segments
from bagwise.numerics.special import LOG_2PI, log_at_least_one, log_negative_side, log_pdf

DRAWS = 16  # of v, over which ψ is averaged
_APART, _REACH = 0.6, 5.4  # standard deviations of u between two places, and from the middle to the last of them
_NONE = 1e-30  # variance of u below which a bag says nothing about v


class BagCurves(NamedTuple):
    """log ψ (b, Q) of whole bags at places u (b, Q) of equal distance (b,), and what the other rows state."""

    others: ChunkEvidence
    places: Tensor
    logs: Tensor
    distance: Tensor

    @property
    def weights(self) -> BagWeights:
        """How many times the bags count."""
        return self.others.weights

    def joined(self, others: Sequence["BagCurves"]) -> "BagCurves":
        """With the curves of further chunks, where no bag states a table."""
        parts = zip(*((one.places, one.logs, one.distance) for one in (self, *others)), strict=True)
        stated = self.others.joined([one.others for one in others])
        return BagCurves(stated, *(torch.cat(part).double() for part in parts))

    def slopes(self, mean: Tensor, variance: Tensor, segments: Segments) -> tuple[Tensor, Tensor, Tensor]:
        """log Z and its first two derivatives in the mean: of whole bags by sums over the places, as others do else."""
        found = self.others.slopes(mean, variance, segments)
        b = len(self.places)
        for part, own in zip(found, self._moments(mean[:b], variance[:b]), strict=True):
            part[:b] = own
        return found

    def _moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """With E and V of the tilted law: (log Z)' = (E − mean)/variance and (log Z)'' = (V/variance − 1)/variance.

        Where a label makes u less certain, V is held at that of the cavity: no site takes precision away, so that every
        cavity exists whichever way directions turn.
        """
        silent = variance <= _NONE
        variance, distance = (torch.where(silent, 1.0, part) for part in (variance, self.distance[:, None]))
        normal = -0.5 * ((self.places - mean).square() / variance + LOG_2PI + torch.log(variance))
        logs = self.logs + normal + torch.log(distance)
        log_z = torch.logsumexp(logs, dim=1, keepdim=True)
        weight = torch.exp(logs - log_z)
        centre = (weight * self.places).sum(1, keepdim=True)
        spread = (weight * (self.places - centre).square()).sum(1, keepdim=True)
        middle = self.logs[:, [self.logs.shape[1] // 2]]
        return (
            torch.where(silent, middle, log_z),
            torch.where(silent, 0.0, (centre - mean) / variance),
            torch.where(silent, 0.0, ((spread / variance).clamp(max=1.0) - 1.0) / variance),
        )


def turn_step(chunk: Chunk, pooled: Pooled, look: Look) -> tuple[Sums, Pooled]:
    """Turn the directions of the bags towards those at the present q(v); sites stay, in the new scale."""
    before = pooled.bag_rows().rows
    lengths = _spreads(before, look.belief)
    seen, new = _seen(chunk, look)
    (towards,) = in_runs(lambda some: (_directions(some, new),), seen)
    rows = _unit(_unit(before, look.belief).lerp(_unit(towards, look.belief), look.share), look.belief)
    turned = pooled_chunk(chunk, labelled(chunk), BagRows(rows, torch.zeros_like(lengths)))
    return {}, Pooled(turned, _rescaled(pooled.sites, lengths), pooled.n_labelled)


def curve_step(chunk: Chunk, pooled: Pooled, look: Look) -> tuple[Sums, Pooled]:
    """The curves of the bags along their directions at the present q(v)."""
    seen, draws = _seen(chunk, look)
    labels = labelled(chunk).of(chunk.evidence.labels)
    curves = partial(_curves, belief=look.belief, draws=draws, noise=chunk.evidence.noise)
    places, logs, distance = in_runs(curves, seen, pooled.bag_rows().rows, labels)
    evidence = BagCurves(pooled.chunk.evidence, places, logs, distance)
    return {}, pooled._replace(chunk=pooled.chunk._replace(evidence=evidence))


def _seen(chunk: Chunk, look: Look) -> tuple[Design, Tensor]:
    """The labelled bags of a chunk, and draws of v (R, S) to see them with."""
    seen = labelled_design(chunk)
    return seen, draws_of(look.belief, standardised(look.points[:, :DRAWS])).to(seen.phi.dtype)


def _directions(design: Design, draws: Tensor) -> Tensor:
    """a = Σᵢ E[h(−zᵢ)]/sᵢ φᵢ, (b, R)."""
    s = torch.sqrt(1.0 + design.kappa)
    z = (design.phi @ draws) / s[:, None]
    slope = in_stretches(lambda rows: torch.exp(log_pdf(rows) - log_negative_side(rows)).mean(1), z) / s
    return design.segments.sum(slope[:, None] * design.phi)


def _spreads(rows: Tensor, belief: Belief) -> Tensor:
    """Standard deviations of aᵀv under q, (b,)."""
    return belief.spread(rows)[:, 0].sqrt()


def _unit(rows: Tensor, belief: Belief) -> Tensor:
    """The same directions, of standard deviation 1 under q."""
    return rows / _spreads(rows, belief).clamp(min=math.sqrt(_NONE))[:, None]


def _rescaled(sites: Sites | None, lengths: Tensor) -> Sites:
    """Sites of whole bags in units of the standard deviation of their direction."""
    assert sites is not None
    scale = torch.ones_like(sites.tau)
    scale[: len(lengths)] = lengths[:, None]
    here = sites.tau * scale.square(), sites.nu * scale
    return Sites(*here, here, here)


def _curves(
    design: Design, rows: Tensor, labels: Tensor, *, belief: Belief, draws: Tensor, noise: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Places, (13.4) there, and their distance. From place to place zᵢ moves by cov(zᵢ, u)/var u = bᵢ."""
    scaled = design.phi * torch.rsqrt(1.0 + design.kappa)[:, None]
    inverse, spread = belief.inverse[0].to(rows.dtype), design.segments.spread
    white, centre = rows @ inverse.T, belief.centre(rows)
    variance = white.square().sum(1).clamp(min=_NONE)
    b = (scaled * spread((white @ inverse) / variance[:, None])).sum(1)[:, None]
    middle = scaled @ draws - b * spread(rows @ draws - centre)
    sd = variance.sqrt()
    reach = b * spread(sd)[:, None]
    steps = torch.arange(-_REACH, _REACH + 0.5 * _APART, _APART, dtype=rows.dtype, device=rows.device)
    logs = []
    for some in torch.split(steps, 1 if rows.device.type == "cpu" else len(steps)):
        negative = design.segments.sum(in_stretches(partial(_log_negatives, steps=some), middle, reach))
        by_step = negative.reshape(len(negative), len(some), draws.shape[1])
        logs.append(_log_label(by_step, labels[:, None], noise).logsumexp(2) - math.log(draws.shape[1]))
    return centre + sd[:, None] * steps, torch.cat(logs, dim=1), _APART * sd


def _log_negatives(z: Tensor, far: Tensor, steps: Tensor) -> Tensor:
    """log cdf(−z) of every row at every step under every draw, (n, steps · S)."""
    return log_negative_side((z[:, None] + far[:, None] * steps[:, None]).flatten(1))


def _log_label(negative: Tensor, labels: Tensor, noise: float) -> Tensor:
    """log P(label) from the log probability that no instance is positive."""
    log_z = torch.where(labels == 1, log_at_least_one(torch.log(-negative)), negative)
    if noise == 0:
        return log_z
    return torch.logaddexp(log_z + math.log1p(-2.0 * noise), torch.full_like(log_z, math.log(noise)))
