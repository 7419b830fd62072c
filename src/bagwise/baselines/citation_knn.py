"""Citation-kNN: the nearest bags vote, and so do the bags that have this one among their nearest."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.baseline import Baseline
from bagwise.baselines._base.machines import Floats, Machine
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard
from bagwise.numerics.blocks import blocks


@dataclass(frozen=True)
class VotingBags(Machine):
    """The training bags, their labels, and how far the citers of each may be."""

    rows: Floats  # (N, D)
    sizes: Floats  # (B,)
    labels: Floats  # (B,) of 0 and 1
    reach: Floats  # (B,) a bag that is not farther than this is among the nearest of the training bag
    references: int

    def scores(self, bags: Bags) -> Floats:
        """(B,) share of positive votes less share of negative ones."""
        distance = nearest_distances(bags, self._bags())
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.references]
        weight = (distance <= self.reach).astype(float)
        np.put_along_axis(weight, nearest, np.take_along_axis(weight, nearest, axis=1) + 1.0, axis=1)
        found: Floats = (weight @ (2.0 * self.labels - 1.0)) / weight.sum(axis=1)
        return found

    def _bags(self) -> Bags:
        return Bags(self.rows, np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int)))


def nearest_distances(bags: Bags, others: Bags) -> Floats:
    """(B, B') the smallest distance between two instances of two bags (minimal Hausdorff distance)."""
    found = np.empty((len(bags), len(others)))
    by_bag = np.empty((len(bags), others.n_instances))
    for part in blocks(others.n_instances, bags.n_instances):
        by_bag[:, part] = np.minimum.reduceat(cdist(bags.X, others.X[part]), bags.offsets[:-1])
    np.minimum.reduceat(by_bag, others.offsets[:-1], axis=1, out=found)
    return found


@documented_baseline
class CitationKNN(Baseline):
    """Citation-kNN: a vote of the nearest training bags and of those that would count this bag among their nearest.

    Two bags are as far apart as the nearest two of their instances. Votes are counted alike; a tie is negative.

    It knows bags only: an instance is judged as a bag of one. Scores take few values, so that many bags tie. It fails
    with many features that do not matter, and where bags are large: then the nearest two instances are near for any two
    bags.

    Parameters
    ----------
    references : int
        Number of nearest training bags that vote. Increase it for noisy labels.
    citers : int
        A training bag votes if the bag is among so many nearest ones of its own. Increase it for noisy labels.

    References
    ----------
    Wang & Zucker, Solving the multiple-instance problem: a lazy learning approach, ICML 2000.
    """

    card = ModelCard("citation-knn", ("label",), "Wang & Zucker 2000", "calibrated")

    def __init__(
        self,
        references: int = 2,
        citers: int = 4,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        self.references = references
        self.citers = citers
        self.standardize = standardize
        self.calibration = calibration
        self.cv = cv
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("references", self.references)
        check.check_count("citers", self.citers, least=0)

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> VotingBags:
        distance = nearest_distances(bags, bags)
        np.fill_diagonal(distance, np.inf)
        ranked = np.sort(distance, axis=1)
        furthest = min(self.citers, len(bags) - 1) - 1
        reach = ranked[:, furthest] if furthest >= 0 else np.full(len(bags), -1.0)
        return VotingBags(bags.X, bags.sizes.astype(float), y, reach, int(self.references))
