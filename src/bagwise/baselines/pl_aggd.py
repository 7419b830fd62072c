"""PL-AGGD: confidences in candidates, a graph of neighbours and a regression, each fitted to the others in turn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from bagwise import _validation as check
from bagwise.baselines._base.candidate_baseline import CandidateBaseline, ClassMachine
from bagwise.baselines._base.machines import Floats
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard

_STEPS = 50  # of projected gradients, for confidences and for the graph


@dataclass(frozen=True)
class KernelRidge(ClassMachine):
    """max(0, Σ_s k(x, row_s) weight_s + intercept) for every class."""

    rows: Floats  # (B, D)
    weights: Floats  # (B, q)
    intercepts: Floats  # (q,)
    gamma: float

    def class_scores(self, rows: Floats) -> Floats:
        """(B, q)."""
        found: Floats = np.maximum(0.0, rbf_kernel(rows, self.rows, self.gamma) @ self.weights + self.intercepts)
        return found


@documented_baseline
class PLAGGD(CandidateBaseline):
    """PL-AGGD: adaptive graph guided disambiguation.

    A bag's confidences in its candidates should be near the output of a kernel ridge regression, and near the
    confidences of its neighbours as they make up the bag on a graph; the graph should rebuild features and confidences.
    Regression, graph and confidences are fitted in turn. Quadratic programmes of the paper (graph, confidences) are
    solved here by projected gradients.

    Neighbours must be of the same class more often than not. Where false candidates come together with a class, they
    support each other on the graph.

    Parameters
    ----------
    neighbours : int
        Number of neighbours of every bag on the graph. Increase it for many bags.
    ridge : float
        Pull of the regression towards 0. Increase it against overfitting.
    smoothness : float
        Weight of the graph in the confidences. Increase it where neighbours can be trusted.
    graph : float
        Weight of the features when the graph is fitted, against confidences. Increase it where candidates are many.
    gamma : float or None
        Inverse squared width of the Gaussian kernel. None takes one over the mean squared distance of two bags.
        Increase it where the answers are too smooth.

    References
    ----------
    Wang, Li & Zhang, Adaptive graph guided disambiguation for partial label learning, KDD 2019.
    """

    card = ModelCard("pl-aggd", ("candidates", "label"), "Wang, Li & Zhang 2019", "shares of scores")

    def __init__(
        self,
        neighbours: int = 10,
        ridge: float = 1.0,
        smoothness: float = 1.0,
        graph: float = 0.05,
        gamma: float | None = None,
        max_rounds: int = 20,
        summary: str = "mean",
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.neighbours = neighbours
        self.ridge = ridge
        self.smoothness = smoothness
        self.graph = graph
        self.gamma = gamma
        self.max_rounds = max_rounds
        self.summary = summary
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("neighbours", self.neighbours)
        check.check_count("max_rounds", self.max_rounds)
        for name in ("ridge", "smoothness", "graph"):
            check.check_positive(name, getattr(self, name))
        if self.gamma is not None:
            check.check_positive("gamma", self.gamma)

    def _learn(self, rows: Floats, table: NDArray[np.bool_], random: np.random.RandomState) -> KernelRidge:
        squared = cdist(rows, rows, "sqeuclidean")
        gamma = 1.0 / (squared.mean() or 1.0) if self.gamma is None else float(self.gamma)
        gram = rbf_kernel(rows, rows, gamma)
        near = _neighbours(squared, self.neighbours)
        belief = table / table.sum(axis=1, keepdims=True)
        weight = near / np.maximum(near.sum(axis=1, keepdims=True), 1.0)
        for _ in range(self.max_rounds):
            weight = _graph(weight, near, self.graph * rows @ rows.T + self.smoothness * belief @ belief.T)
            coefficients, intercepts = ridge_regression(gram, belief, self.ridge)
            belief = _confidences(belief, table, gram @ coefficients + intercepts, weight, self.smoothness)
        coefficients, intercepts = ridge_regression(gram, belief, self.ridge)
        return KernelRidge(rows, coefficients, intercepts, float(gamma))


def ridge_regression(gram: Floats, targets: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Minimise |K A + b - targets|² + ridge tr(Aᵀ K A): A (B, q) and b (q,), which satisfy Σ A = 0."""
    n = len(gram)
    system = np.block([[gram + ridge * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.concatenate([targets, np.zeros((1, targets.shape[1]))]))
    return solved[:n], solved[n]


def onto_simplex(values: Floats, allowed: NDArray[np.bool_]) -> Floats:
    """The nearest rows that sum to one, are not negative, and are 0 where nothing is allowed."""
    ordered = -np.sort(np.where(allowed, -values, np.inf), axis=1)
    finite = np.where(np.isfinite(ordered), ordered, 0.0)
    level = (np.cumsum(finite, axis=1) - 1.0) / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > level).sum(axis=1), 1) - 1
    return np.where(allowed, np.maximum(values - level[np.arange(len(values)), last][:, None], 0.0), 0.0)


def _neighbours(squared: Floats, count: int) -> NDArray[np.bool_]:
    """(B, B) who is among the nearest of whom, nobody of themselves."""
    others = squared + np.where(np.eye(len(squared), dtype=bool), np.inf, 0.0)
    nearest = np.argsort(others, axis=1, kind="stable")[:, : min(count, len(squared) - 1)]
    found = np.zeros(squared.shape, dtype=bool)
    np.put_along_axis(found, nearest, True, axis=1)
    return found


def _graph(weight: Floats, near: NDArray[np.bool_], products: Floats) -> Floats:
    """Minimise Σ_i |z_i - Σ_j s_ij z_j|² over neighbours with weights that sum to one; ``products`` are z_i · z_j."""
    step = 0.5 / max(float(np.linalg.norm(products, 2)), 1e-12)
    for _ in range(_STEPS):
        weight = onto_simplex(weight - step * (weight @ products - products), near)
    return weight


def _confidences(
    belief: Floats, table: NDArray[np.bool_], outputs: Floats, weight: Floats, smoothness: float
) -> Floats:
    """Minimise |F - outputs|² + smoothness |F - S F|² over confidences in candidates that sum to one."""
    rest = np.eye(len(weight)) - weight
    pull = smoothness * rest.T @ rest
    step = 0.5 / (1.0 + float(np.linalg.norm(pull, 2)))
    for _ in range(_STEPS):
        belief = onto_simplex(belief - step * (belief - outputs + pull @ belief), table)
    return belief
