"""The points that everything is averaged over: draws of v, the same for every bag, count and query of a model."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import qmc
from torch import Tensor

from bagwise.bag_models.rules import LabelRule
from bagwise.bags import Bags
from bagwise.gp.features import Features
from bagwise.gp.latent import LatentBags, Points
from bagwise.gp.leftovers import RANK
from bagwise.gp.posterior import Draws, Posterior

SOBOL_POINTS = 512
NOISE = RANK + 64  # dimensions beside those of v: of leftovers that are shared, and of single instances


def points_of(posterior: Posterior, seed: int) -> Points:
    """The draws of the chains, or quasi-random ones of a Gaussian posterior, that belong to the model of this seed."""
    device = posterior.mean.device
    if isinstance(posterior, Draws):
        weights = posterior.pooled()
        noise = np.random.default_rng([seed, 2]).standard_normal((NOISE, weights.shape[2]))
        return Points(weights, torch.from_numpy(noise).to(device), seed)
    normals = sobol_normals(len(posterior.mean) + NOISE, seed).to(device)
    return Points(posterior.draws(normals[:-NOISE]), normals[-NOISE:], seed)


@lru_cache(maxsize=4)
def sobol_normals(dimension: int, seed: int) -> Tensor:
    """(dimension, SOBOL_POINTS) scrambled Sobol points pushed through the normal quantile.

    They are kept for the models asked last: of a few bags they would take longer than the answer. Not to be changed.
    """
    engine = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    points = torch.from_numpy(engine.random(SOBOL_POINTS).T.copy())
    tiny = 2.0**-32  # below half the spacing of 30-bit points: moves only the rare exact 0
    normals: Tensor = torch.special.ndtri(points.clamp(tiny, 1.0 - tiny))
    return normals


class Fitted(NamedTuple):
    """What every answer of a model of labels is made of."""

    features: Features
    posterior: Posterior
    rule: LabelRule
    seed: int  # of the points; it belongs to the model, so no answer depends on which other bags are asked about

    def points(self) -> Points:
        """What is averaged over."""
        return points_of(self.posterior, self.seed)

    def latent(
        self, bags: Bags, points: Points | None = None, sizes: NDArray[np.int64] | None = None
    ) -> Iterator[LatentBags]:
        """The latent values of the bags, a bounded number of rows at a time.

        ``sizes`` (B,) are those of the bags where they stand for parts of larger ones.
        """
        common = self.points() if points is None else points
        for _, some, design in self.features.parts(bags, sizes):
            yield LatentBags(
                self.features, some, design, self.posterior, common, self.rule.shares, self.rule.of_classes
            )
