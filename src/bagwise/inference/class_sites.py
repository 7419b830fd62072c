"""The sites of bags that have one class out of many, as functions of a point (theory section 16).

A bag whose class is in S says two things. **No instance is positive in a class outside of S.** That is a product over
instances, cdf(−φᵢᵀv_k/sᵢ) with sᵢ² = 1 + κᵢ, so every instance has a site of its own in each of these classes, as in
ordinary probit classification. **Exactly one class of S is shown.** That is seen as a whole: with g_k(v_k) as in (13.2)
column k holds a positive with probability cdf(g_k), so the bag is ONE instance with a latent value for every class of
S. Each g_k is made linear around the present q(v_k), g_k(v) ≈ aᵀv + c + N(0, ω); columns meet in the moments of a bag
(``site_terms``), and nowhere else.

(A line would do for the first as well, but a bag without a class is far from a line where the latent values of its
instances vary a lot and by themselves. Eight unrelated instances without the class have log evidence 8 log ½ = −5.5
whatever the variance; a line has −6.0 at variance 40 and −6.3 at variance 1,000.)

Everything here is differentiable, because the kernel is learned through it (``kernel_learning/by_classes.py``). There
are P pairs of a class and a bag that may show it, class by class; sites of single instances are (K, N).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.classes import site_terms
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.inference.bag_propagation import design_of_bags, linearise
from bagwise.inference.bags_as_rows import BagRows
from bagwise.numerics.linalg import logdet, squared_lengths, unwhiten, weighted_gram, whiten
from bagwise.numerics.special import hazard, log_ndtr


@dataclass(frozen=True)
class ClassGround:
    """What sites rest on: the features of all instances, chunk by chunk, and which bags may show which classes."""

    designs: Sequence[Design]
    possible: Tensor  # (B, K) whether a class is in the set of a bag

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """The bags and the classes of all pairs, (P,) each."""
        classes, bags = self.possible.T.nonzero().T
        return bags, classes

    @cached_property
    def _counts(self) -> list[int]:
        counts: list[int] = self.possible.sum(0).tolist()
        return counts

    @cached_property
    def excluded(self) -> Tensor:
        """Which instances have a site of their own in which classes, (K, N)."""
        return torch.cat([design.segments.spread(~part) for design, part in self._parts()]).T

    def scaled(self, share: float) -> "ClassGround":
        """The same with latent values that are a share of what they were."""
        parts = [design._replace(phi=share * design.phi, kappa=share**2 * design.kappa) for design in self.designs]
        return ClassGround(parts, self.possible)

    def by_class(self, values: Tensor) -> tuple[Tensor, ...]:
        """Values of pairs, class by class."""
        return torch.split(values, self._counts)

    def by_chunk(self, values: Tensor) -> tuple[Tensor, ...]:
        """Values of instances (K, N), chunk by chunk."""
        return torch.split(values, [len(design.phi) for design in self.designs], dim=1)

    def table(self, values: Tensor) -> Tensor:
        """Values of pairs as a table (B, K), 0 elsewhere."""
        zeros = values.new_zeros(self.possible.shape)
        return zeros.index_put(self.pairs, values)

    def looked_at(self, draws: Tensor) -> BagRows:
        """All pairs as rows (P, R) with offsets (P,), from draws (K, R, S) of every v_k."""
        parts = [
            _linearised(design, chosen, own)
            for k, own in enumerate(draws)
            for design, chosen in ((design, part[:, k]) for design, part in self._parts())
        ]
        return BagRows(*(torch.cat(part).double() for part in zip(*parts, strict=True)))

    def _parts(self) -> list[tuple[Design, Tensor]]:
        cut = torch.split(self.possible, [len(design.segments) for design in self.designs])
        return list(zip(self.designs, cut, strict=True))


def _linearised(design: Design, chosen: Tensor, draws: Tensor) -> BagRows:
    """Some bags of a chunk as rows."""
    if not bool(chosen.any()):
        return BagRows(design.phi[:0], design.kappa[:0])
    seen = design_of_bags(design, chosen)
    return linearise(seen.phi, seen.kappa, seen.segments, draws.to(seen.phi.dtype))


class ClassPoint(NamedTuple):
    """Bags as rows, one for every class that they may show, and all sites; those of single instances may be zero."""

    rows: Tensor  # (P, R)
    offset: Tensor  # (P,)
    tau: Tensor  # (P,)
    nu: Tensor  # (P,)
    own_tau: Tensor  # (K, N)
    own_nu: Tensor  # (K, N)


class InstanceTotals(NamedTuple):
    """What the sites of single instances add to the precisions (K, R, R) and to the shifts (K, R)."""

    precision: Tensor
    shift: Tensor


class ClassBelief(NamedTuple):
    """q(v_k) = N(mean_k, (C_k C_kᵀ)⁻¹), mean_k = (C_k C_kᵀ)⁻¹ shift_k."""

    factor: Tensor  # (K, R, R)
    mean: Tensor  # (K, R)
    shift: Tensor  # (K, R)

    def draws(self, points: Tensor) -> Tensor:
        """m + C⁻ᵀ ξ for the points ξ (R, S): (K, R, S)."""
        return self.mean[:, :, None] + unwhiten(self.factor, points.expand(len(self.mean), -1, -1))


class ClassCavities(NamedTuple):
    """Every pair, or every single instance, without its own site, and the moments (4.2) of what is stated there."""

    mean: Tensor
    variance: Tensor
    log_z: Tensor  # of whole bags (B,)
    slope: Tensor  # of log Z in the mean
    bend: Tensor  # its derivative


def totals_of(x: ClassPoint, ground: ClassGround) -> InstanceTotals:
    """Σ τ φφᵀ/s² and Σ ν φ/s over single instances."""
    parts = zip(ground.designs, ground.by_chunk(x.own_tau), ground.by_chunk(x.own_nu), strict=True)
    sums = [_added(*part) for part in parts]
    return InstanceTotals(*(torch.stack(part).sum(0) for part in zip(*sums, strict=True)))


def _added(design: Design, tau: Tensor, nu: Tensor) -> InstanceTotals:
    phi, noise = design.phi, 1.0 + design.kappa
    grams = [weighted_gram(phi, weight / noise) for weight in tau.to(phi.dtype)]
    shift = (nu.to(phi.dtype) * torch.rsqrt(noise)) @ phi
    return InstanceTotals(torch.stack(grams).double(), shift.double())


def belief_of(x: ClassPoint, ground: ClassGround, totals: InstanceTotals) -> ClassBelief:
    """A_k = I + Σ τ a aᵀ over whole bags and single instances, and its mean A_k⁻¹ Σ ν a."""
    eye = torch.eye(x.rows.shape[1], dtype=x.rows.dtype, device=x.rows.device)
    grams = [a.T @ (tau[:, None] * a) for a, tau in zip(ground.by_class(x.rows), ground.by_class(x.tau), strict=True)]
    factor, failed = torch.linalg.cholesky_ex(eye + totals.precision + torch.stack(grams))
    if bool(failed.any()):
        raise NumericalError("the sites of the bags leave no precision that is positive definite")
    pulls = [nu @ a for a, nu in zip(ground.by_class(x.rows), ground.by_class(x.nu), strict=True)]
    shift = totals.shift + torch.stack(pulls)
    return ClassBelief(factor, torch.cholesky_solve(shift[:, :, None], factor)[:, :, 0], shift)


def bags_seen(x: ClassPoint, belief: ClassBelief, ground: ClassGround, table: Tensor) -> ClassCavities:
    """Whole bags without their sites, and what they say there; ``table`` (B, K + 1) holds the candidates."""
    rows = ground.by_class(x.rows)
    weight = torch.cat([whiten(C, a.T).square().sum(0) for C, a in zip(belief.factor, rows, strict=True)])
    centre = torch.cat([a @ mean for mean, a in zip(belief.mean, rows, strict=True)])
    mean, variance = _cavity(centre, weight, x.tau, x.nu)
    z = (mean + x.offset) / torch.sqrt(1.0 + variance)
    log_z, g = site_terms(ground.table(z), table, ground.possible)
    return _with_moments(mean, variance, log_z, g[ground.pairs], z)


def instances_seen(x: ClassPoint, belief: ClassBelief, ground: ClassGround) -> ClassCavities:
    """Single instances without their sites, and how they are excluded there; 0 where they are not."""
    parts = [_seen_in(design, belief) for design in ground.designs]
    centre, weight = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    mean, variance = _cavity(centre, weight, x.own_tau, x.own_nu)
    z = mean / torch.sqrt(1.0 + variance)
    log_z, g = (torch.where(ground.excluded, part, 0.0) for part in (log_ndtr(-z), -hazard(-z)))
    return _with_moments(mean, variance, log_z, g, z)


def _seen_in(design: Design, belief: ClassBelief) -> tuple[Tensor, Tensor]:
    """Means and variances of φᵀv/s, (K, n) each."""
    phi, noise = design.phi, 1.0 + design.kappa
    eye = torch.eye(phi.shape[1], dtype=torch.float64, device=phi.device)
    inverse = whiten(belief.factor, eye.expand_as(belief.factor)).to(phi.dtype)
    weight = torch.stack([squared_lengths(phi, lower) for lower in inverse]) / noise
    return ((belief.mean.to(phi.dtype) @ phi.T) * torch.rsqrt(noise)).double(), weight.double()


def _cavity(centre: Tensor, weight: Tensor, tau: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
    remaining = 1.0 - tau * weight
    return (centre - nu * weight) / remaining, weight / remaining


def _with_moments(mean: Tensor, variance: Tensor, log_z: Tensor, g: Tensor, z: Tensor) -> ClassCavities:
    """From G at z = (mean + offset)/s: the slope G/s, and its derivative by (2.3)."""
    s = torch.sqrt(1.0 + variance)
    slope = g / s
    return ClassCavities(mean, variance, log_z, slope, -slope.square() - z * slope / s)


def matched_sites(seen: ClassCavities) -> tuple[Tensor, Tensor]:
    """(4.3): the sites whose moments are those of what is stated."""
    shrink = 1.0 + seen.variance * seen.bend
    return -seen.bend / shrink, (seen.slope - seen.bend * seen.mean) / shrink


def class_log_evidence(x: ClassPoint, belief: ClassBelief, bags: ClassCavities, instances: ClassCavities) -> Tensor:
    """(4.4) over the sites of all bags, instances and classes."""
    own = _freed(bags, x.tau, x.nu) + _freed(instances, x.own_tau, x.own_nu)
    return own - 0.5 * logdet(belief.factor).sum() + 0.5 * (belief.shift * belief.mean).sum()


def _freed(seen: ClassCavities, tau: Tensor, nu: Tensor) -> Tensor:
    """log Z of what is stated, less that of its sites."""
    e = 1.0 + tau * seen.variance
    middle = seen.variance * nu.square() + 2.0 * seen.mean * nu - tau * seen.mean.square()
    return seen.log_z.sum() + (0.5 * torch.log(e) - middle / (2.0 * e)).sum()
