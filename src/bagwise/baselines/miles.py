"""MILES: bags by their likeness to every training instance, and a sparse linear machine of these."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.bags import Bags
from bagwise.baselines._base.baseline import Baseline
from bagwise.baselines._base.kernel_settings import check_kernel_settings, kernel_width
from bagwise.baselines._base.linear_programme import one_norm_svm
from bagwise.baselines._base.machines import Floats, Machine, largest
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard
from bagwise.numerics.blocks import blocks


@dataclass(frozen=True)
class ConceptMachine(Machine):
    """Σ_k weight_k s(B, concept_k) + intercept, s the likeness of the nearest instance of the bag to the concept."""

    concepts: Floats  # (M, D)
    weights: Floats  # (M,)
    intercept: float
    gamma: float

    def scores(self, bags: Bags) -> Floats:
        """(B,) sums over concepts."""
        return likeness(bags, self.concepts, self.gamma) @ self.weights + self.intercept


def likeness(bags: Bags, concepts: Floats, gamma: float) -> Floats:
    """(B, M) the largest exp(-gamma |x - concept|²) over the rows x of each bag."""
    found = np.empty((len(bags), len(concepts)))
    for part in blocks(len(concepts), bags.n_instances):
        found[:, part] = largest(rbf_kernel(bags.X, concepts[part], gamma), bags)
    return found


@documented_baseline
class MILES(Baseline):
    """MILES: every training instance is a concept; a bag is described by its likeness to each, and few are chosen.

    The likeness of a bag to a concept is that of its nearest instance, ``exp(-gamma |x - concept|²)``. A linear machine
    with a small sum of absolute weights chooses concepts, good and bad ones, by linear programming.

    It needs no assumption on what makes a bag positive, and so it cannot say which instance did: an instance is judged
    as a bag of one. With many instances and few bags the choice of concepts is arbitrary among those that are alike.

    References
    ----------
    Chen, Bi & Wang, MILES: multiple-instance learning via embedded instance selection, IEEE Transactions on Pattern
    Analysis and Machine Intelligence 28, 2006.
    """

    weighs_bags = True
    card = ModelCard("miles", ("label",), "Chen, Bi & Wang 2006", "calibrated")

    def __init__(
        self,
        C: float = 10.0,
        gamma: float | None = None,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.standardize = standardize
        self.calibration = calibration
        self.cv = cv
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check_kernel_settings("rbf", self.C, self.gamma)

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> ConceptMachine:
        gamma = kernel_width("rbf", self.gamma, bags)
        weights, intercept = one_norm_svm(likeness(bags, bags.X, gamma), np.where(y == 1, 1.0, -1.0), self.C * weight)
        used = np.abs(weights) > 1e-12
        used[0] |= not used.any()
        return ConceptMachine(bags.X[used], weights[used], intercept, gamma)
