"""A mixture of regions, each with its own frequencies of classes, from candidate sets: a stand-in for LSB-CMM."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.cluster import KMeans

from bagwise import _validation as check
from bagwise.baselines._base.candidate_baseline import CandidateBaseline, ClassMachine
from bagwise.baselines._base.machines import Floats
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.models._base.saved import ModelCard

_SETTLED = 1e-3  # gain of the log posterior in a round, in nats per bag
_ADDED = 0.3  # bags of every class that a region is taken to have held before
_STEPS = 20  # of the regression of the regions, in every round
_FIRST_SHARE = 0.9  # of the cluster that a row lies in, at the start


@dataclass(frozen=True)
class GatedClasses(ClassMachine):
    """P(class | x) = Σ_k P(region k | x) P(class | region k), the regions by a soft-max of linear scores."""

    gate: Floats  # (D + 1, k), the last row for the intercepts
    classes: Floats  # (k, q)

    def class_scores(self, rows: Floats) -> Floats:
        """(B, q) probabilities."""
        found: Floats = softmax(_with_one(rows) @ self.gate, axis=1) @ self.classes
        return found


@documented_baseline
class ConditionalMixture(CandidateBaseline):
    """Conditional multinomial mixture: linear regions, each with its frequencies of classes.

    A simpler stand-in for LSB-CMM. There as here a row belongs to a region, a region has frequencies of classes, and
    the true class is one of the candidates. Regions are a soft-max of linear scores fitted by EM here; LSB-CMM has a
    logistic stick-breaking process and variational inference, which chooses the number of regions by itself.

    EM finds a local optimum and depends on its start (k-means). With few bags and many features the regions fit by
    chance. A false candidate that always comes with a class cannot be told from it.

    Parameters
    ----------
    n_regions : int or None
        Number of regions. None takes twice the number of classes. Increase it where classes lie in several places.
    C : float
        Penalty of a poor fit of the regions against small weights. Decrease it where features are many.

    References
    ----------
    Liu & Dietterich, A conditional multinomial mixture model for superset label learning, NIPS 2012.
    """

    card = ModelCard("conditional-mixture", ("candidates", "label"), "after Liu & Dietterich 2012", "own")

    def __init__(
        self,
        n_regions: int | None = None,
        C: float = 1.0,
        max_rounds: int = 200,
        summary: str = "mean",
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_regions = n_regions
        self.C = C
        self.max_rounds = max_rounds
        self.summary = summary
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_positive("C", self.C)
        check.check_count("max_rounds", self.max_rounds)
        if self.n_regions is not None:
            check.check_count("n_regions", self.n_regions)

    def _learn(self, rows: Floats, table: NDArray[np.bool_], random: np.random.RandomState) -> GatedClasses:
        X, count = _with_one(rows), self._regions(rows, table)
        share = _first_shares(rows, count, random)
        belief = share[:, :, None] * (table / table.sum(axis=1, keepdims=True))[:, None, :]
        gate, reached = np.zeros((X.shape[1], count)), -np.inf
        for _ in range(self.max_rounds):
            gate = self._gate(X, belief.sum(axis=2), gate)
            classes = class_frequencies(belief)
            belief, value = posterior_of_regions(X @ gate, classes, table)
            value += _ADDED * np.log(classes).sum() - 0.5 * float((gate[:-1] ** 2).sum()) / self.C
            if value - reached < _SETTLED * len(X):
                break
            reached = value
        else:
            warn_user(
                f"EM did not settle within {self.max_rounds} rounds; the last one is used. Increase max_rounds.",
                ConvergenceWarning,
            )
        return GatedClasses(gate, classes)

    def _regions(self, rows: Floats, table: NDArray[np.bool_]) -> int:
        wanted = 2 * table.shape[1] if self.n_regions is None else int(self.n_regions)
        return min(wanted, len(np.unique(rows, axis=0)))

    def _gate(self, X: Floats, share: Floats, start: Floats) -> Floats:
        """A soft-max regression of the regions' shares; some steps towards it, which raise the objective as well."""

        def loss(flat: Floats) -> tuple[float, Floats]:
            weights = flat.reshape(start.shape)
            scores = X @ weights
            pull = np.concatenate([weights[:-1], np.zeros((1, start.shape[1]))]) / self.C
            value = -np.sum(share * log_softmax(scores, axis=1)) + 0.5 * np.sum(pull * weights)
            return float(value), (X.T @ (softmax(scores, axis=1) - share) + pull).ravel()

        found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        weights: Floats = found.x.reshape(start.shape)
        return weights


def posterior_of_regions(scores: Floats, classes: Floats, table: NDArray[np.bool_]) -> tuple[Floats, float]:
    """(B, k, q) P(region, class | x, candidates), and Σ log P(the class is a candidate | x)."""
    joint = softmax(scores, axis=1)[:, :, None] * classes[None] * table[:, None, :]
    total = joint.sum(axis=(1, 2))
    return joint / total[:, None, None], float(np.log(total).sum())


def class_frequencies(belief: Floats) -> Floats:
    """(k, q) most probable frequencies under a Dirichlet prior with exponent ``_ADDED`` for every class."""
    counts = belief.sum(axis=0) + _ADDED
    found: Floats = counts / counts.sum(axis=1, keepdims=True)
    return found


def _first_shares(rows: Floats, count: int, random: np.random.RandomState) -> Floats:
    """(B, k) mostly the cluster that a row lies in."""
    if count == 1:
        return np.ones((len(rows), 1))
    number = KMeans(count, n_init=1, random_state=random).fit(rows).labels_
    share = np.full((len(rows), count), (1.0 - _FIRST_SHARE) / (count - 1))
    share[np.arange(len(rows)), number] = _FIRST_SHARE
    return share


def _with_one(rows: Floats) -> Floats:
    return np.column_stack([rows, np.ones(len(rows))])
