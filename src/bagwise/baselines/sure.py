"""SURE: a kernel regression that is retrained on its own confidences, which are pushed towards one candidate."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from bagwise import _validation as check
from bagwise.baselines._base.candidate_baseline import CandidateBaseline
from bagwise.baselines._base.machines import Floats
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.baselines.pl_aggd import KernelRidge, onto_simplex, ridge_regression
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.models._base.saved import ModelCard

_SETTLED = 1e-4  # largest change of a confidence


@documented_baseline
class SURE(CandidateBaseline):
    """SURE: self-guided retraining.

    A bag's confidences in its candidates should be near the output of a kernel ridge regression, and the largest of
    them should be large (a reward of ``sharpness`` times it). Regression and confidences are fitted in turn.

    What it believes first it believes ever more: a false candidate that comes with a class in most bags is taken for
    it. The objective is not convex in the confidences.

    Parameters
    ----------
    ridge : float
        Pull of the regression towards 0. Increase it against overfitting.
    sharpness : float
        Reward of the largest confidence of a bag. Increase it to decide sooner; from 2 on every bag decides at once for
        the largest output.
    gamma : float or None
        Inverse squared width of the Gaussian kernel. None takes one over the mean squared distance of two bags.
        Increase it where the answers are too smooth.

    References
    ----------
    Feng & An, Partial label learning with self-guided retraining, AAAI 2019: equations (2) to (8).
    """

    card = ModelCard("sure", ("candidates", "label"), "Feng & An 2019", "shares of scores")

    def __init__(
        self,
        ridge: float = 0.05,
        sharpness: float = 0.3,
        gamma: float | None = None,
        max_rounds: int = 200,
        summary: str = "mean",
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.ridge = ridge
        self.sharpness = sharpness
        self.gamma = gamma
        self.max_rounds = max_rounds
        self.summary = summary
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("max_rounds", self.max_rounds)
        check.check_positive("ridge", self.ridge)
        check.check_positive("sharpness", self.sharpness, zero=True)
        if self.gamma is not None:
            check.check_positive("gamma", self.gamma)

    def _learn(self, rows: Floats, table: NDArray[np.bool_], random: np.random.RandomState) -> KernelRidge:
        spread = float(cdist(rows, rows, "sqeuclidean").mean())
        gamma = 1.0 / (spread or 1.0) if self.gamma is None else float(self.gamma)
        gram = rbf_kernel(rows, rows, gamma)
        belief = table / table.sum(axis=1, keepdims=True)
        for _ in range(self.max_rounds):
            coefficients, intercepts = ridge_regression(gram, belief, self.ridge)
            before, belief = belief, confidences(gram @ coefficients + intercepts, table, self.sharpness)
            if np.abs(belief - before).max() < _SETTLED:
                break
        else:
            warn_user(
                f"the confidences did not settle within {self.max_rounds} rounds; the last ones are used. Increase "
                "max_rounds.",
                ConvergenceWarning,
            )
        return KernelRidge(rows, coefficients, intercepts, gamma)


def confidences(outputs: Floats, table: NDArray[np.bool_], sharpness: float) -> Floats:
    """Minimise |p - output|² - sharpness · max p over confidences in candidates that sum to one, row by row.

    If p_j is the largest, that is |p - output - (sharpness / 2) e_j|² but for a constant: a projection onto the
    simplex. The best j is the candidate of the largest output, because exchanging two confidences so that they are
    ordered as the outputs are brings p nearer; and the projection keeps that order, so p_j is the largest.
    """
    best = np.where(table, outputs, -np.inf).argmax(axis=1)
    pushed = outputs.copy()
    pushed[np.arange(len(outputs)), best] += 0.5 * sharpness
    return onto_simplex(pushed, table)
