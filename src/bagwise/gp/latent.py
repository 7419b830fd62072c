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
from bagwise.gp import kernels
from bagwise.gp.features import Design, Features
from bagwise.gp.posterior import Posterior
from bagwise.numerics.blocks import blocks
from bagwise.numerics.links import Link
from bagwise.numerics.segments import Segments


class Points(NamedTuple):
    """What every average over v is taken over. They belong to the fitted model: no answer depends on its company."""

    weights: Tensor  # (K, R, S) draws of v
    noise: Tensor  # (Q, S) standard normal numbers beside them, for what v leaves open
    seed: int  # where more of them come from


@dataclass(frozen=True)
class LatentBags:
    """f = φᵀv + N(0, κ) in some whole bags; all a rule needs to say how probable a positive bag is."""

    features: Features
    bags: Bags
    design: Design
    posterior: Posterior
    points: Points

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

    def centres(self, column: int) -> Iterator[tuple[slice, Tensor]]:
        """φᵀv under the draws of v, (n, some draws) at a time, in double precision."""
        rows, weights = self.design.phi, self.points.weights[column]
        for some in blocks(weights.shape[1], len(rows)):
            yield some, (rows @ weights[:, some].to(rows.dtype)).double()

    def scores(self, column: int) -> Iterator[tuple[slice, Tensor]]:
        """The same with κ integrated out: P(yᵢ = 1 | v) is the link's probability at the score."""
        left = self.design.kappa.double()
        for some, centre in self.centres(column):
            yield some, self.link.score(centre, left)

    def weighted_design(self, P: Tensor) -> tuple[Tensor, Tensor]:
        """Pᵀ Φ, (b, R), and the variance Σ P² κ that independent leftovers add to Pᵀ f, (b,)."""
        left = self.segments.sum(P.square() * self.design.kappa.to(P.dtype))
        return self.segments.sum(P[:, None] * self.design.phi.to(P.dtype)), left

    def weighted_moments(self, P: Tensor, column: int) -> tuple[Tensor, Tensor]:
        """Mean and variance of Σ Pᵢ fᵢ in every bag, (b,) each; P (n,) sums to one over each of them.

        Under a linear kernel Pᵀ f is the latent value of the row Pᵀ X, whose features say it all, and exactly. Else it
        is that of a row Pᵀ Φ with what is left over of independent instances.
        """
        linear = kernels.is_linear(self.features.kernel)
        mean, variance = self.posterior.moments(*(self._weighted_row(P) if linear else self.weighted_design(P)))
        return mean[:, column], variance[:, column]

    def _weighted_row(self, P: Tensor) -> tuple[Tensor, Tensor]:
        bags = self.bags
        shape = (len(bags), bags.n_instances)
        weights = scipy.sparse.csr_array((P.cpu().numpy(), np.arange(bags.n_instances), bags.offsets), shape=shape)
        designs = [design for _, design in self.features.designs(as_bags(weights @ bags.X))]
        return torch.cat([design.phi for design in designs]), torch.cat([design.kappa for design in designs])
