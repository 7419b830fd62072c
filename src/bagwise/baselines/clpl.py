"""CLPL: a convex loss that asks the mean score of the candidates to be high and every other score to be low."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from bagwise import _validation as check
from bagwise.baselines._base.candidate_baseline import CandidateBaseline, ClassMachine
from bagwise.baselines._base.machines import Floats
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@dataclass(frozen=True)
class LinearScores(ClassMachine):
    """exp(x · weights + intercepts), whose shares are a soft-max."""

    weights: Floats  # (D + 1, q), the last row for the intercepts

    def class_scores(self, rows: Floats) -> Floats:
        """(B, q)."""
        found: Floats = softmax(_with_one(rows) @ self.weights, axis=1)
        return found


def _with_one(rows: Floats) -> Floats:
    return np.column_stack([rows, np.ones(len(rows))])


def clpl_loss(scores: Floats, table: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Σ ψ(mean score of the candidates) + Σ ψ(-score) over the others, ψ(u) = max(0, 1 - u)², and its gradient."""
    sizes = table.sum(axis=1)
    short = np.maximum(0.0, 1.0 - np.where(table, scores, 0.0).sum(axis=1) / sizes)
    high = np.where(table, 0.0, np.maximum(0.0, 1.0 + scores))
    slope = 2.0 * high - np.where(table, (2.0 * short / sizes)[:, None], 0.0)
    return float((short**2).sum() + (high**2).sum()), slope


@documented_baseline
class CLPL(CandidateBaseline):
    """CLPL: convex learning from partial labels, linear.

    The mean score of the candidates should exceed 1, the score of every other class should be below -1; squared hinge
    losses. The probabilities are a soft-max of the scores, for which the paper gives no ground.

    The mean lets one high candidate pay for the others, which is the point, and also lets all of them be middling: with
    many false candidates it learns their frequencies.

    Parameters
    ----------
    C : float
        Penalty of losses against small weights. Increase it for many bags, decrease it where features are many.

    References
    ----------
    Cour, Sapp & Taskar, Learning from partial labels, Journal of Machine Learning Research 12, 2011: equation (5).
    """

    card = ModelCard("clpl", ("candidates", "label"), "Cour, Sapp & Taskar 2011", "soft-max of scores")

    def __init__(
        self, C: float = 1.0, summary: str = "mean", standardize: bool = True, random_state: Any = None
    ) -> None:
        self.C = C
        self.summary = summary
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_positive("C", self.C)

    def _learn(self, rows: Floats, table: NDArray[np.bool_], random: np.random.RandomState) -> LinearScores:
        X = _with_one(rows)
        shape = (X.shape[1], table.shape[1])

        def loss(flat: Floats) -> tuple[float, Floats]:
            weights = flat.reshape(shape)
            value, slope = clpl_loss(X @ weights, table)
            pull = np.where(np.arange(shape[0]) < shape[0] - 1, 1.0, 0.0)[:, None] * weights
            total = self.C * value + 0.5 * (pull * weights).sum()
            return float(total), (self.C * (X.T @ slope) + pull).ravel()

        found = minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B")
        return LinearScores(found.x.reshape(shape))
