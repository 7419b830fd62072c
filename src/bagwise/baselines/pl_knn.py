"""PL-kNN: the nearest bags vote for each of their candidates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bagwise import _validation as check
from bagwise.baselines._base.candidate_baseline import CandidateBaseline, ClassMachine
from bagwise.baselines._base.machines import Floats
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@dataclass(frozen=True)
class VotingRows(ClassMachine):
    """Training rows and their candidates."""

    rows: Floats  # (B, D)
    table: Floats  # (B, q) of 0 and 1
    neighbours: int

    def class_scores(self, rows: Floats) -> Floats:
        """(B, q) votes, each of weight 1 - distance / sum of the distances of all who vote."""
        distance = cdist(rows, self.rows)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.neighbours]
        near = np.take_along_axis(distance, nearest, axis=1)
        total = near.sum(axis=1, keepdims=True)
        alone = near.shape[1] == 1
        weight = np.ones_like(near) if alone else 1.0 - np.divide(near, total, out=np.zeros_like(near), where=total > 0)
        votes: Floats = np.einsum("bk,bkq->bq", weight, self.table[nearest])
        return votes


@documented_baseline
class PLKNN(CandidateBaseline):
    """PL-kNN: the nearest bags vote for each of their candidates, near ones a little more.

    It believes every candidate alike, so that a false candidate that often comes with a class cannot be told from it.
    Features that do not matter mislead it.

    Parameters
    ----------
    neighbours : int
        Number of nearest training bags that vote. Increase it for many false candidates.

    References
    ----------
    Hüllermeier & Beringer, Learning from ambiguously labeled examples, Intelligent Data Analysis 10, 2006.
    """

    card = ModelCard("pl-knn", ("candidates", "label"), "Hüllermeier & Beringer 2006", "shares of scores")

    def __init__(
        self, neighbours: int = 10, summary: str = "mean", standardize: bool = True, random_state: Any = None
    ) -> None:
        self.neighbours = neighbours
        self.summary = summary
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("neighbours", self.neighbours)

    def _learn(self, rows: Floats, table: NDArray[np.bool_], random: np.random.RandomState) -> VotingRows:
        return VotingRows(rows, table.astype(float), int(self.neighbours))
