"""Alternating ∝SVM: labels of instances that keep near the fractions of their bags, and a machine, in turn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, xlogy

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.alternation import alternate
from bagwise.baselines._base.fraction_baseline import FractionBaseline
from bagwise.baselines._base.kernel_baseline import row_svm
from bagwise.baselines._base.kernel_settings import check_kernel_settings, kernel_width
from bagwise.baselines._base.machines import Floats, RowFunction, bag_means
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard

Labels = NDArray[np.bool_]
_SHARES = (1e-3, 1e-2, 1e-1, 1.0)  # of the penalty C, which grows while labels settle


@documented_baseline
class ProportionSVM(FractionBaseline):
    """∝SVM, solved in turns (alter-∝SVM): a machine for labels, then labels that suit the machine and the fractions.

    Objective: ``½|w|²`` + C Σ hinge losses of instances + ``fraction_penalty`` Σ ``|share of positives - fraction|``
    over bags. For given labels this is a support vector machine. For a given machine the best labels of a bag make
    those instances positive that gain most, as many as cost least. The penalty C grows to its value while the two
    alternate. The best of several random starts is kept. Probabilities are a sigmoid of the margin that fits the
    fractions of the training bags best.

    The objective has many local optima. Where fractions are about one half and bags are large, exchanging the two
    labels costs little, and the machine may turn out the wrong way round.

    Parameters
    ----------
    fraction_penalty : float
        Penalty of a bag whose labels are off by its whole fraction. Decrease it for noisy fractions.
    n_starts : int
        Number of random starts. Increase it if fits with other random numbers differ; it costs time.

    References
    ----------
    Yu, Liu, Kumar, Jebara & Chang, ∝SVM for learning with label proportions, ICML 2013: section 4.
    """

    card = ModelCard(
        "proportion-svm", ("fraction",), "Yu, Liu, Kumar, Jebara & Chang 2013", "calibrated on the fractions"
    )

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 1.0,
        gamma: float | None = None,
        fraction_penalty: float = 100.0,
        n_starts: int = 5,
        max_rounds: int = 50,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.fraction_penalty = fraction_penalty
        self.n_starts = n_starts
        self.max_rounds = max_rounds
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check_kernel_settings(self.kernel, self.C, self.gamma)
        check.check_positive("fraction_penalty", self.fraction_penalty)
        check.check_count("n_starts", self.n_starts)
        check.check_count("max_rounds", self.max_rounds)

    def _learn(self, bags: Bags, fraction: Floats, random: np.random.RandomState) -> RowFunction:
        gamma = kernel_width(self.kernel, self.gamma, bags)
        climbs = [self._climb(bags, fraction, gamma, random) for _ in range(self.n_starts)]
        function = min(climbs, key=lambda found: self._objective(found, bags, fraction))
        slope, intercept = odds_of_margins(function.values(bags.X), bags, fraction)
        return RowFunction(function.vectors, slope * function.weights, slope * function.intercept + intercept, gamma)

    def _climb(self, bags: Bags, fraction: Floats, gamma: float, random: np.random.RandomState) -> RowFunction:
        """From labels drawn with the fractions, with a penalty that grows to its value."""
        y = random.uniform(size=bags.n_instances) < fraction[bags.index]
        for share in _SHARES:
            function = self._alternated(bags, fraction, gamma, share * self.C, y)
            y = self._labels(function, bags, fraction, share * self.C)
        return function

    def _alternated(self, bags: Bags, fraction: Floats, gamma: float, C: float, y: Labels) -> RowFunction:
        def learn(labels: Labels) -> RowFunction:
            if labels.all() or not labels.any():
                return RowFunction(bags.X[:1], np.zeros(1), 1.0 if labels.all() else -1.0, gamma)
            return row_svm(bags.X, labels, C, gamma)

        return alternate(learn, lambda found: self._labels(found, bags, fraction, C), y, self.max_rounds)

    def _labels(self, function: RowFunction, bags: Bags, fraction: Floats, C: float) -> Labels:
        f = function.values(bags.X)
        return best_labels(
            C * (np.maximum(0.0, 1.0 + f) - np.maximum(0.0, 1.0 - f)), bags, fraction, self.fraction_penalty
        )

    def _objective(self, function: RowFunction, bags: Bags, fraction: Floats) -> float:
        """At the best labels for the function."""
        y = self._labels(function, bags, fraction, self.C)
        norm = function.weights @ (function.values(function.vectors) - function.intercept)
        hinge = np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * function.values(bags.X)).sum()
        off = np.abs(bag_means(y.astype(float), bags) - fraction).sum()
        return float(0.5 * norm + self.C * hinge + self.fraction_penalty * off)


def best_labels(gain: Floats, bags: Bags, fraction: Floats, penalty: float) -> Labels:
    """(N,) the labels of least loss: Σ gain of the positives is what they save, |share - fraction| costs ``penalty``.

    Those of largest gain are positive; how many is found by trying every number (proposition 1 of the paper).
    """
    order = np.lexsort((-gain, bags.index))
    summed = np.cumsum(gain[order])
    before = np.concatenate([[0.0], summed])[bags.offsets[:-1]]
    number = np.arange(bags.n_instances) - bags.offsets[:-1][bags.index] + 1  # of positives, down to this place
    share = fraction[bags.index]
    cost = penalty * np.abs(number / bags.sizes[bags.index] - share) - (summed - before[bags.index])
    least = np.minimum.reduceat(cost, bags.offsets[:-1])
    first = np.minimum.reduceat(np.where(cost == least[bags.index], number, bags.n_instances + 1), bags.offsets[:-1])
    wanted = np.where(penalty * fraction <= least, 0, first)  # the cost of none is penalty · fraction
    found = np.empty(bags.n_instances, dtype=bool)
    found[order] = number <= wanted[bags.index]
    return found


def odds_of_margins(margin: Floats, bags: Bags, fraction: Floats) -> tuple[float, float]:
    """Slope (not below 0) and intercept by which σ(slope · margin + intercept) has the likeliest fractions of bags."""

    def loss(parameters: Floats) -> float:
        mean = np.clip(bag_means(expit(parameters[0] * margin + parameters[1]), bags), 1e-9, 1.0 - 1e-9)
        return -float(np.sum(bags.sizes * (xlogy(fraction, mean) + xlogy(1.0 - fraction, 1.0 - mean))))

    found = minimize(loss, np.array([2.0, 0.0]), method="L-BFGS-B", bounds=[(0.01, 20.0), (-20.0, 20.0)])
    return float(found.x[0]), float(found.x[1])
