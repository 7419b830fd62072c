"""Expectation propagation over bags that have one class out of many: rows and sites in turn (theory section 16).

What the sites are, and what they say, is in ``class_sites.py``.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.bag_propagation import standard_points, turned_back
from bagwise.inference.bags_as_rows import BagRows
from bagwise.inference.chunks import Chunk
from bagwise.inference.class_sites import (
    ClassBelief,
    ClassCavities,
    ClassGround,
    ClassPoint,
    bags_seen,
    belief_of,
    class_log_evidence,
    instances_seen,
    matched_sites,
    totals_of,
)
from bagwise.inference.loop import Report
from bagwise.numerics.links import PROBIT
from bagwise.numerics.special import log_ndtr

SHARES = (0.8, 0.4, 0.2)  # how far rows follow the newest linearisation; less where they go round in circles
_LOOKS, _SWEEPS = 2, 1  # at the bags for every sweep over instances, and sweeps over bags for every look
_DAMPINGS = (0.8, 0.4, 0.2)
_RISING, _RISING_SWEEPS = (0.125, 0.25, 0.5), 4  # shares of the latent values to begin with, and sweeps for each
_PATIENCE, _FALL = 8, 0.7  # over so many rounds the residual must fall by so much, or less is followed
_LEAST = 1e-6  # of what a cavity or a matched moment is divided by
_SHORTENINGS = 12
_ROUNDING = 1e-6  # a log evidence may lie above 0 by so much


class ClassPropagation:
    """The state of the iteration. Bags that state nothing must not be among the chunks.

    ``table`` may be put to other candidates out of the sets that the chunks state: these alone decide which classes are
    excluded for good.
    """

    def __init__(self, chunks: Sequence[Chunk], n_columns: int, device: torch.device, seed: int) -> None:
        self.table = torch.cat([chunk.evidence.table for chunk in chunks])
        self.ground = ClassGround([chunk.design for chunk in chunks], self.table[:, :-1])
        self.points = standard_points(n_columns, seed).to(device)
        of_pairs = torch.zeros(int(self.ground.possible.sum()), dtype=torch.float64, device=device)
        of_instances = of_pairs.new_zeros(self.ground.excluded.shape)
        rows = of_pairs.new_zeros(len(of_pairs), n_columns)
        self.point = ClassPoint(rows, of_pairs, of_pairs, of_pairs, of_instances, of_instances)
        self._totals = totals_of(self.point, self.ground)
        self.belief = belief_of(self.point, self.ground, self._totals)
        self._residuals: list[float] = []
        self._moves: list[Tensor] = []
        self._share, self._damping, self._begun = 0, 0, False
        self.log_evidence = torch.zeros(1, dtype=torch.float64, device=device)

    def step(self) -> Report:
        """A sweep over all instances, and some looks at the bags; the residual is how far a mean of v moved.

        Sweeps over instances cost most, and what takes long is bags that slowly change their mind. ``log_evidence`` is
        that before the step; ``finish`` brings it up to date.
        """
        if not self._begun:
            self._rise()
        before = self.belief.mean
        self._sweep()
        self._moves = [*self._moves[1 - _PATIENCE :], self.belief.mean - before]
        residual = float(self._moves[-1].abs().max())
        self._adapt(residual)
        return Report(float(self.log_evidence), residual)

    def _sweep(self) -> None:
        self._sweep_instances()
        for _ in range(_LOOKS):
            self.look(SHARES[self._share] if self._begun else 1.0)
            for _ in range(_SWEEPS):
                self._move_to(*self._towards(self._bags_seen(), self.point.tau, self.point.nu))

    def _rise(self) -> None:
        """Begin with small latent values, and let them grow.

        Under a kernel of large variance every bag soon settles on some of its instances, for better or worse, and sites
        have many fixed points. Small latent values leave it open for longer, until other bags have been heard.
        """
        whole = self.ground
        for scale in _RISING:
            self.ground = whole.scaled(scale)
            self._resettle()
            for _ in range(_RISING_SWEEPS):
                self._sweep()
        self.ground = whole
        self._resettle()

    def _resettle(self) -> None:
        """The belief that the present sites lead to on other ground."""
        self._totals = totals_of(self.point, self.ground)
        if self._begun:
            self.look(1.0)

    def look(self, share: float) -> None:
        """Make the bags linear at the present q(v), and follow a share of what is seen."""
        old = BagRows(self.point.rows, self.point.offset)
        rows = old.blended(self.ground.looked_at(self.belief.draws(self.points)), share)
        self._take(self.point._replace(rows=rows.rows, offset=rows.offset))
        self._begun = True

    def resume(self, belief: ClassBelief, point: ClassPoint) -> None:
        """Start from other sites, looking from another belief at first."""
        self.belief, self.point, self._begun = belief, point, True
        self._resettle()

    def calm(self) -> None:
        """Forget how the iteration has gone so far: what follows is another one."""
        self._residuals, self._moves, self._share, self._damping = [], [], 0, 0

    def finish(self) -> None:
        """Bring ``log_evidence`` up to the last sites."""
        self._judged(self._bags_seen(), self._instances_seen())

    def plausible(self) -> bool:
        """Whether the log evidence is that of a probability."""
        return bool((self.log_evidence <= _ROUNDING).all())

    def left_out_odds(self) -> Tensor:
        """log odds of every class of a bag by what all other bags say, (B, K + 1); 0 for none of them, last.

        So have classes that are excluded for good, which says nothing about them.
        """
        seen = self._bags_seen()
        z = (seen.mean + self.point.offset) / torch.sqrt(1.0 + seen.variance)
        return torch.nn.functional.pad(self.ground.table(log_ndtr(z) - log_ndtr(-z)), (0, 1))

    def left_out(self, table: Tensor) -> float:
        """log probability of these statements, each by what all others say, added up.

        A statement is that of a whole bag about the classes that it may have, or an instance that excludes a class.
        """
        bags = bags_seen(self.point, self.belief, self.ground, table)
        return float(bags.log_z.sum() + self._instances_seen().log_z.sum())

    def posterior(self) -> GaussianPosterior:
        """q(v) under the current sites."""
        own = torch.arange(len(self.belief.mean), device=self.belief.mean.device)
        return GaussianPosterior(self.belief.mean.T, self.belief.factor, own, PROBIT)

    def _bags_seen(self) -> ClassCavities:
        return bags_seen(self.point, self.belief, self.ground, self.table)

    def _instances_seen(self) -> ClassCavities:
        return instances_seen(self.point, self.belief, self.ground)

    def _sweep_instances(self) -> None:
        """One parallel update of the sites of all instances, damped."""
        seen = self._instances_seen()
        self._judged(self._bags_seen(), seen)
        tau, nu = self._towards(seen, self.point.own_tau, self.point.own_nu)
        self.point = self.point._replace(own_tau=tau, own_nu=nu)
        self._totals = totals_of(self.point, self.ground)
        self._take(self.point)

    def _towards(self, seen: ClassCavities, tau: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
        """A part of the way to the sites that match; sites without a sound cavity stay."""
        sound = (seen.variance > 0) & (1.0 + seen.variance * seen.bend > _LEAST)
        length = torch.where(sound, _DAMPINGS[self._damping], 0.0)
        goal = matched_sites(seen)
        return tau + length * (goal[0] - tau), nu + length * (goal[1] - nu)

    def _judged(self, bags: ClassCavities, instances: ClassCavities) -> None:
        self.log_evidence = class_log_evidence(self.point, self.belief, bags, instances)[None]

    def _take(self, x: ClassPoint) -> None:
        """Take new rows, with sites made weaker where these leave no precision that is positive definite."""
        for _ in range(_SHORTENINGS):
            try:
                self.point, self.belief = x, belief_of(x, self.ground, self._totals)
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
                self.point, self.belief = x, belief_of(x, self.ground, self._totals)
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
