"""The latent values of some whole bags under q(v): moments, scores under draws of v, weighted sums of instances."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from bagwise.bags import Bags, as_bags
from bagwise.evidence.cells import cell_numbers
from bagwise.gp import kernels
from bagwise.gp.features import Design, Features
from bagwise.gp.leftovers import NEGLIGIBLE, RANK, Leftover, share_leftover
from bagwise.gp.posterior import GaussianPosterior, Posterior
from bagwise.numerics.blocks import blocks
from bagwise.numerics.links import Link
from bagwise.numerics.segments import Segments


def copies(link: Link, scores: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """P(positive) at some scores (b, S), and P(at least one positive) among n (b,) copies that share their score."""
    negative = link.log_probability(-scores)
    return -torch.expm1(negative), -torch.expm1(n[:, None] * negative)


MOST_CELLS = 64  # of a bag whose own effects are shared by everyone in them; in so many cells they average out
TURNS = 32  # draws of a shared leftover for every draw of v, where answers given v are asked for


class Points(NamedTuple):
    """What every average over v is taken over. They belong to the fitted model: no answer depends on its company."""

    weights: Tensor  # (K, R, S) draws of v
    noise: Tensor  # (Q, S) standard normal numbers beside them, for what v leaves open
    seed: int  # where more of them come from


@dataclass(frozen=True)
class LatentBags:
    """f = φᵀv + leftover in some whole bags; all a rule needs to say how probable a positive bag is."""

    features: Features
    bags: Bags
    design: Design
    posterior: Posterior
    points: Points
    shares: bool = False  # whether what the features leave over is shared inside a bag, as the kernel has it
    one_bag: bool = False  # whether all columns decide about a bag together, and see one cut of what is left over

    @property
    def link(self) -> Link:
        """From f to the probability of a positive instance."""
        return self.posterior.link

    @property
    def segments(self) -> Segments:
        """Where the bags lie."""
        return self.design.segments

    @property
    def n_labels(self) -> int:
        """K, the number of label columns."""
        return len(self.points.weights)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of f, (n, K) each."""
        return self.posterior.moments(self.design.phi, self.design.kappa)

    @cached_property
    def probability(self) -> Tensor:
        """P(y = 1) of every instance, (n, K)."""
        return self.posterior.probability(self.design.phi, self.design.kappa)

    @cached_property
    def totals(self) -> Tensor:
        """(b,) number of individuals in every bag."""
        return torch.as_tensor(self.bags.totals, dtype=torch.float64, device=self.design.phi.device)

    @cached_property
    def _people(self) -> Tensor | None:
        weight = self.bags.weight
        return None if weight is None else torch.tensor(weight, dtype=torch.float64, device=self.design.phi.device)

    def over_people(self, x: Tensor) -> Tensor:
        """The sum of x (n, S) over the individuals of every bag: a row counts as often as it stands for one."""
        return self.segments.sum(x if self._people is None else x * self._people[:, None])

    def present(self, x: Tensor) -> Tensor:
        """x (n, K), 0 in rows that stand for nobody."""
        return x if self._people is None else x.masked_fill(self._people[:, None] == 0, 0.0)

    def leftover(self, column: int) -> Leftover:
        """What the features leave over of f: a part that the instances of a bag share, and one of each alone.

        Seen from one label column, or from all of them together: what matters most is shared most exactly.
        """
        column = 0 if self.one_bag else column
        if column not in self._leftovers:
            self._leftovers.clear()  # columns are asked for one after the other
            self._leftovers[column] = self._left_over(column)
        return self._leftovers[column]

    @cached_property
    def _leftovers(self) -> dict[int, Leftover]:
        return {}

    def _left_over(self, column: int) -> Leftover:
        """What the kernel leaves over and, beside it, the effects of the bag and of its cells."""
        effect = self.features.effect
        if effect.size == 0.0:
            return self._kernel_left_over(column, self.design)
        relative = self.design.kappa.new_tensor(effect.relative(self.bags.X))
        variance = (effect.size * relative).square()
        without = self.design._replace(kappa=(self.design.kappa - variance).clamp(min=0.0))
        own = self._kernel_left_over(column, without)
        several = (self.segments.spread(self.totals > 1) * relative).to(own.shared.dtype)[:, None]
        effects = effect.common * several
        if effect.own > 0:
            effects = torch.cat([effects, effect.own * self._cells.to(own.shared.dtype) * several], dim=1)
        kept, dropped = own.shared[:, : RANK - 1], own.shared[:, RANK - 1 :]
        alone = variance - effects.square().sum(1)
        return Leftover(torch.cat([kept, effects], dim=1), own.rest + dropped.square().sum(1) + alone.clamp(min=0.0))

    @cached_property
    def _cells(self) -> Tensor:
        """(n, C) 1 where a row belongs to the first, second … cell of its bag; rows of further cells have none."""
        cell = torch.as_tensor(cell_numbers(self.bags), device=self.design.phi.device)
        place = cell - self.segments.spread((-self.segments.max(-cell.double())).long())
        return torch.nn.functional.one_hot(place.clamp(max=MOST_CELLS))[:, :MOST_CELLS]

    def _kernel_left_over(self, column: int, design: Design) -> Leftover:
        if not self.shares or float(design.kappa.max()) <= NEGLIGIBLE:
            return Leftover(design.phi.new_zeros(len(design.phi), 0), design.kappa)
        own = design.phi[:, : self.features.n_inducing]
        x = self.features.standardised(self.bags.X)
        weight = (self.probability.amax(1) if self.one_bag else self.probability[:, column]).to(own.dtype)
        return share_leftover(self.features.kernel, x, own, design.kappa, design.segments, weight)

    def turns(self, column: int) -> tuple[int, ...]:
        """Pairings of the draws of v with draws of the shared leftover, to average the latter for every v."""
        points = self.points.noise.shape[1]
        return tuple(points * k // TURNS for k in range(TURNS)) if self.leftover(column).shared.shape[1] else (0,)

    def centres(self, column: int, turn: int = 0) -> Iterator[tuple[slice, Tensor]]:
        """φᵀv and the shared leftover under the draws, (n, some draws) at a time, in double precision.

        ``turn`` pairs the draws of v with other draws of the leftover.
        """
        for some, centre in self._products(column):
            yield some, self._beside(centre, column, some, turn)

    def scores(self, column: int, turn: int = 0) -> Iterator[tuple[slice, Tensor]]:
        """The same with what is left integrated out: P(yᵢ = 1 | v) is the link's probability at the score."""
        rest = self.leftover(column).rest.double()
        for some, centre in self.centres(column, turn):
            yield some, self.link.score(centre, rest)

    def scores_by_turn(self, column: int) -> Iterator[Iterator[Tensor]]:
        """The scores under some draws of v at a time, once for every turn: φᵀv is computed once for all of these."""
        rest = self.leftover(column).rest.double()
        for some, centre in self._products(column):
            turned = (self._beside(centre, column, some, turn) for turn in self.turns(column))
            yield (self.link.score(values, rest) for values in turned)

    def _products(self, column: int) -> Iterator[tuple[slice, Tensor]]:
        """φᵀv under the draws, (n, some draws) at a time."""
        rows, weights = self.design.phi, self.points.weights[column]
        for some in blocks(weights.shape[1], len(rows)):
            yield some, rows @ weights[:, some].to(rows.dtype)

    def _beside(self, centre: Tensor, column: int, some: slice, turn: int) -> Tensor:
        """φᵀv under some draws with the shared leftover that goes with them, in double precision."""
        shared = self.leftover(column).shared
        if shared.shape[1] == 0:
            return centre.double()
        noise = torch.roll(self.points.noise[: shared.shape[1]], turn, dims=1)[:, some]
        return torch.addmm(centre, shared, noise.to(shared.dtype)).double()

    def expected_copies(self, rows: Tensor, n: Tensor, column: int) -> Tensor:
        """Exact means over v of ``copies`` for some rows: (b, 2).

        What v and the shared leftover say of the row is Gaussian, with the variance of f less what is left over of the
        row alone; it is averaged over by the trapezium rule. A posterior that consists of draws knows only these.
        """
        if not isinstance(self.posterior, GaussianPosterior):
            parts = [torch.stack(copies(self.link, scores[rows], n), dim=1) for _, scores in self.scores(column)]
            return torch.cat(parts, dim=2).mean(2)
        mean, variance = (part[rows, column] for part in self.moments)
        rest = self.leftover(column).rest[rows].double()
        z = torch.linspace(-8.0, 8.0, 321, dtype=torch.float64, device=mean.device)
        weights = torch.exp(-0.5 * z.square())
        centre = mean[:, None] + (variance - rest).clamp(min=0.0).sqrt()[:, None] * z
        found = torch.stack(copies(self.link, self.link.score(centre, rest), n), dim=1)
        return found @ (weights / weights.sum())

    def weighted_design(self, P: Tensor, column: int) -> tuple[Tensor, Tensor]:
        """Pᵀ Φ, (b, R), and the variance |UᵀP|² + Σ P² d that leftovers add to Pᵀ f, (b,)."""
        shared, rest = (part.to(P.dtype) for part in self.leftover(column))
        left = self.segments.sum(P.square() * rest)
        if shared.shape[1]:
            left = left + self.segments.sum(P[:, None] * shared).square().sum(1)
        return self.segments.sum(P[:, None] * self.design.phi.to(P.dtype)), left

    def weighted_moments(self, P: Tensor, column: int) -> tuple[Tensor, Tensor]:
        """Mean and variance of Σ Pᵢ fᵢ in every bag, (b,) each; P (n,) sums to one over each of them.

        Under a linear kernel Pᵀ f is the latent value of the row Pᵀ X, whose features say it all, and exactly. Else it
        is that of a row Pᵀ Φ with what is left over of independent instances.
        """
        linear = kernels.is_linear(self.features.kernel)
        mean, variance = self.posterior.moments(*(self._weighted_row(P) if linear else self.weighted_design(P, column)))
        return mean[:, column], variance[:, column]

    def _weighted_row(self, P: Tensor) -> tuple[Tensor, Tensor]:
        bags = self.bags
        shape = (len(bags), bags.n_instances)
        weights = scipy.sparse.csr_array((P.cpu().numpy(), np.arange(bags.n_instances), bags.offsets), shape=shape)
        designs = [design for _, design in self.features.designs(as_bags(weights @ bags.X))]
        return torch.cat([design.phi for design in designs]), torch.cat([design.kappa for design in designs])
