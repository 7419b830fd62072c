"""Mean map: the means of the two classes follow from the means of bags, and a classifier needs no more than these."""

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.fraction_baseline import FractionBaseline
from bagwise.baselines._base.machines import Floats, RowFunction, bag_means
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class MeanMap(FractionBaseline):
    """Mean map: a logistic regression that sees labels only through the mean of each class, solved for from bags.

    If instances of a class are alike in all bags, the mean of bag b is m_b μ₁ + (1 - m_b) μ₀. Least squares over bags
    give μ₀ and μ₁; the likelihood of a linear logistic regression depends on labels through these alone.

    It fails where the instances of a class differ from bag to bag, and where all bags have about the same fraction: the
    two means are then not told apart. It is linear.

    Parameters
    ----------
    C : float
        Penalty of a poor likelihood against small weights. Increase it for many instances, decrease it where bags are
        few.

    References
    ----------
    Quadrianto, Smola, Caetano & Le, Estimating labels from label proportions, Journal of Machine Learning Research
    10, 2009.
    """

    card = ModelCard("mean-map", ("fraction",), "Quadrianto, Smola, Caetano & Le 2009", "own, instances independent")

    def __init__(self, C: float = 10.0, standardize: bool = True, random_state: Any = None) -> None:
        self.C = C
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_positive("C", self.C)

    def _learn(self, bags: Bags, fraction: Floats, random: np.random.RandomState) -> RowFunction:
        X = np.column_stack([bags.X, np.ones(bags.n_instances)])
        positives = float(fraction @ bags.sizes)
        summed = positives * class_means(np.asarray(bag_means(X, bags)), fraction, bags.sizes)[0]

        def loss(theta: Floats) -> tuple[float, Floats]:
            """-Σ_i log P(y_i | x_i) = Σ_i log(1 + exp(f_i)) - θ · Σ_i y_i x_i, and half of |θ|² / C."""
            f = X @ theta
            value = np.logaddexp(0.0, f).sum() - summed @ theta + 0.5 * theta[:-1] @ theta[:-1] / self.C
            slope = expit(f) @ X - summed
            slope[:-1] += theta[:-1] / self.C
            return float(value), slope

        theta = minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B").x
        return RowFunction(theta[None, :-1], np.ones(1), float(theta[-1]), 0.0)


def class_means(means: Floats, fraction: Floats, sizes: Any) -> Floats:
    """(2, D) the means of positives and of negatives: least squares over bags, each by the number of its instances."""
    weight = np.sqrt(sizes)[:, None]
    shares = np.column_stack([fraction, 1.0 - fraction])
    found: Floats = np.linalg.lstsq(weight * shares, weight * means, rcond=None)[0]
    return found
