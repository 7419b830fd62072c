"""Expectation propagation with one site per bag and class: bags that have one class out of many (theory section 16).

Seen as a whole a bag is K numbers: with g_k(v_k) as in (13.2) its column k holds a positive with probability cdf(g_k),
so a bag that states its candidates is a bag of ONE instance with latent values g_1 … g_K. Each g_k is made linear
around the present q(v_k), g_k(v) ≈ aᵀv + c + N(0, ω), and expectation propagation runs over these rows: columns meet in
the moments of a bag (``site_terms``), and nowhere else.

Everything below is a differentiable function of a point x = (rows, offsets, sites), because the kernel is learned
through it (``kernel_learning/by_classes.py``). Arrays are (K, B, …): rows differ from column to column.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.classes import site_terms
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.bag_propagation import BagRows, linearise, standard_points, turned_back
from bagwise.inference.chunks import Chunk
from bagwise.inference.loop import Report
from bagwise.numerics.linalg import logdet, unwhiten, whiten
from bagwise.numerics.links import PROBIT
from bagwise.numerics.special import log_ndtr

SHARES = (0.8, 0.4, 0.2)  # how far rows follow the newest linearisation; less where they go round in circles
_SWEEPS, _DAMPINGS = 3, (0.8, 0.4, 0.2)  # over the sites between two linearisations
_PATIENCE, _FALL = 8, 0.7  # over so many rounds the residual must fall by so much, or less is followed
_LEAST = 1e-6  # of what a cavity or a matched moment is divided by
_SHORTENINGS = 12
_ROUNDING = 1e-6  # a log evidence may lie above 0 by so much


class ClassPoint(NamedTuple):
    """Bags as rows, one for every class, and the sites of these."""

    rows: Tensor  # (K, B, R)
    offset: Tensor  # (K, B)
    tau: Tensor  # (K, B)
    nu: Tensor  # (K, B)


class ClassBelief(NamedTuple):
    """q(v_k) = N(mean_k, (C_k C_kᵀ)⁻¹)."""

    factor: Tensor  # (K, R, R)
    mean: Tensor  # (K, R)

    def draws(self, points: Tensor) -> Tensor:
        """m + C⁻ᵀ ξ for the points ξ (R, S): (K, R, S)."""
        return self.mean[:, :, None] + unwhiten(self.factor, points.expand(len(self.mean), -1, -1))


def belief_of(x: ClassPoint) -> ClassBelief:
    """A_k = I + Σ τ a aᵀ and its mean A_k⁻¹ Σ ν a."""
    eye = torch.eye(x.rows.shape[2], dtype=x.rows.dtype, device=x.rows.device)
    factor, failed = torch.linalg.cholesky_ex(eye + x.rows.mT @ (x.tau[:, :, None] * x.rows))
    if bool(failed.any()):
        raise NumericalError("the sites of the bags leave no precision that is positive definite")
    shift = x.rows.mT @ x.nu[:, :, None]
    return ClassBelief(factor, torch.cholesky_solve(shift, factor)[:, :, 0])


class ClassCavities(NamedTuple):
    """Every row without its own site, and the moments (4.2) of the bag's statement there; (K, B), log Z (B,)."""

    mean: Tensor
    variance: Tensor
    log_z: Tensor
    slope: Tensor  # of log Z in the mean
    bend: Tensor  # its derivative


def seen_from(x: ClassPoint, belief: ClassBelief, table: Tensor) -> ClassCavities:
    """Cavities, and what the bags say in them; ``table`` (B, K + 1) holds the candidates."""
    weight = whiten(belief.factor, x.rows.mT).square().sum(1)
    remaining = 1.0 - x.tau * weight
    centre = (x.rows @ belief.mean[:, :, None])[:, :, 0]
    mean, variance = (centre - x.nu * weight) / remaining, weight / remaining
    s = torch.sqrt(1.0 + variance)
    z = (mean + x.offset) / s
    log_z, g = site_terms(z.T, table)
    slope = g.T / s
    return ClassCavities(mean, variance, log_z, slope, -slope.square() - z * slope / s)


def matched_sites(seen: ClassCavities) -> tuple[Tensor, Tensor]:
    """(4.3): the sites whose moments are those of the statement."""
    shrink = 1.0 + seen.variance * seen.bend
    return -seen.bend / shrink, (seen.slope - seen.bend * seen.mean) / shrink


def class_log_evidence(x: ClassPoint, belief: ClassBelief, seen: ClassCavities) -> Tensor:
    """(4.4) over the sites of all bags and classes."""
    e = 1.0 + x.tau * seen.variance
    middle = seen.variance * x.nu.square() + 2.0 * seen.mean * x.nu - x.tau * seen.mean.square()
    own = 0.5 * torch.log(e) - middle / (2.0 * e)
    shift = (x.rows.mT @ x.nu[:, :, None])[:, :, 0]
    return seen.log_z.sum() + own.sum() - 0.5 * logdet(belief.factor).sum() + 0.5 * (shift * belief.mean).sum()


def linearised_classes(design: Design, draws: Tensor) -> BagRows:
    """The bags of a chunk as rows (K, b, R) with offsets (K, b), from draws (K, R, S) of every v_k."""
    parts = [linearise(design.phi, design.kappa, design.segments, own.to(design.phi.dtype)) for own in draws]
    return BagRows(*(torch.stack(part).double() for part in zip(*parts, strict=True)))


class ClassPropagation:
    """The state of the iteration. Bags that state nothing must not be among the chunks."""

    def __init__(self, chunks: Sequence[Chunk], n_columns: int, device: torch.device, seed: int) -> None:
        self._chunks = chunks
        self.table = torch.cat([chunk.evidence.table for chunk in chunks])
        K, B = self.table.shape[1] - 1, len(self.table)
        self.points = standard_points(n_columns, seed).to(device)
        zeros = torch.zeros(K, B, dtype=torch.float64, device=device)
        self.point = ClassPoint(zeros.new_zeros(K, B, n_columns), zeros, zeros, zeros)
        self.belief = belief_of(self.point)
        self._residuals: list[float] = []
        self._moves: list[Tensor] = []
        self._share, self._damping, self._begun = 0, 0, False
        self.log_evidence = torch.zeros(1, dtype=torch.float64, device=device)

    def step(self) -> Report:
        """One linearisation and a few sweeps over the sites; the residual is how far a mean of v moved.

        ``log_evidence`` is that before the last sweep; ``finish`` brings it up to date.
        """
        before = self.belief.mean
        self.look(SHARES[self._share] if self._begun else 1.0)
        for _ in range(_SWEEPS):
            self._sweep()
        self._moves = [*self._moves[1 - _PATIENCE :], self.belief.mean - before]
        residual = float(self._moves[-1].abs().max())
        self._adapt(residual)
        return Report(float(self.log_evidence), residual)

    def look(self, share: float) -> None:
        """Make the bags linear at the present q(v), and follow a share of what is seen."""
        draws = self.belief.draws(self.points)
        parts = [linearised_classes(chunk.design, draws) for chunk in self._chunks]
        new = BagRows(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))
        old = BagRows(self.point.rows, self.point.offset)
        rows = old.blended(new, share)
        self._take(self.point._replace(rows=rows.rows, offset=rows.offset))
        self._begun = True

    def resume(self, belief: ClassBelief, point: ClassPoint) -> None:
        """Start from other sites, looking from another belief at first."""
        self.belief, self.point = belief, point
        self.look(1.0)

    def calm(self) -> None:
        """Forget how the iteration has gone so far: what follows is another one."""
        self._residuals, self._moves, self._share, self._damping = [], [], 0, 0

    def finish(self) -> None:
        """Bring ``log_evidence`` up to the last sites."""
        self._judged()

    def plausible(self) -> bool:
        """Whether the log evidence is that of a probability."""
        return bool((self.log_evidence <= _ROUNDING).all())

    def left_out_odds(self) -> Tensor:
        """log odds of every class of a bag by what all other bags say, (B, K + 1); 0 for none of them, last."""
        seen = seen_from(self.point, self.belief, self.table)
        z = (seen.mean + self.point.offset) / torch.sqrt(1.0 + seen.variance)
        return torch.nn.functional.pad((log_ndtr(z) - log_ndtr(-z)).T, (0, 1))

    def left_out(self, table: Tensor) -> float:
        """log probability of these statements, each by what all other bags say, added up over bags."""
        return float(seen_from(self.point, self.belief, table).log_z.sum())

    def posterior(self) -> GaussianPosterior:
        """q(v) under the current sites."""
        own = torch.arange(len(self.belief.mean), device=self.belief.mean.device)
        return GaussianPosterior(self.belief.mean.T, self.belief.factor, own, PROBIT)

    def _sweep(self) -> None:
        """One parallel update of all sites, damped; sites without a sound cavity stay."""
        seen = self._judged()
        tau, nu = matched_sites(seen)
        sound = (seen.variance > 0) & (1.0 + seen.variance * seen.bend > _LEAST)
        length = _DAMPINGS[self._damping]
        old = self.point.tau, self.point.nu
        goal = torch.where(sound, tau, old[0]), torch.where(sound, nu, old[1])
        self._move_to(*(start + length * (end - start) for start, end in zip(old, goal, strict=True)))

    def _judged(self) -> ClassCavities:
        """The cavities of the present sites, and their log evidence."""
        seen = seen_from(self.point, self.belief, self.table)
        self.log_evidence = class_log_evidence(self.point, self.belief, seen)[None]
        return seen

    def _take(self, x: ClassPoint) -> None:
        """Take new rows, with sites made weaker where these leave no precision that is positive definite."""
        for _ in range(_SHORTENINGS):
            try:
                self.point, self.belief = x, belief_of(x)
            except NumericalError:
                x = x._replace(tau=0.5 * x.tau, nu=0.5 * x.nu)
            else:
                return
        raise NumericalError("the sites of the bags leave no precision that is positive definite")

    def _move_to(self, tau: Tensor, nu: Tensor) -> None:
        """Take other sites; half of the way, and half of that, where the precision would not be positive definite."""
        start, length = self.point, 1.0
        for _ in range(_SHORTENINGS):
            x = start._replace(tau=start.tau + length * (tau - start.tau), nu=start.nu + length * (nu - start.nu))
            try:
                self.point, self.belief = x, belief_of(x)
            except NumericalError:
                length *= 0.5
            else:
                return

    def _adapt(self, residual: float) -> None:
        """Follow less, and damp more, where the residual has hardly fallen for a while and the means go to and fro.

        Means that drift one way only, as where a bag slowly changes its mind about an instance, would get there later.
        """
        if not math.isfinite(residual):
            raise NumericalError("the linearised bags left the range of floating point numbers")
        self._residuals.append(residual)
        recent, earlier = self._residuals[-_PATIENCE:], self._residuals[:-_PATIENCE]
        hardly = earlier and min(recent) >= _FALL * min(earlier)
        if hardly and self._share < len(SHARES) - 1 and turned_back(self._moves):
            self._share, self._damping = self._share + 1, self._damping + 1
            self._residuals = [residual]
