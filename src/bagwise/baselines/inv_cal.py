"""Inverse calibration: a support vector regression of the log odds of every bag."""

from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.svm import SVR

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.fraction_baseline import FractionBaseline
from bagwise.baselines._base.kernel_baseline import mean_gram
from bagwise.baselines._base.kernel_settings import check_kernel_settings, kernel_width
from bagwise.baselines._base.machines import Floats, RowFunction
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class InvCal(FractionBaseline):
    """Inverse calibration: the mean of a bag's instances should have the log odds of its fraction.

    A support vector regression with the mean kernel of bags and targets log(m / (1 - m)); the function of an instance
    is then its log odds. Fractions of 0 and 1 are moved inside by ``clip``.

    The mean of log odds is not the log odds of the mean: with pure bags, or bags of very different instances, the
    probabilities are off. Few bags are few examples, however many instances they hold.

    Parameters
    ----------
    tolerance : float
        Differences of log odds below this cost nothing. Increase it for noisy fractions.
    clip : float
        Nearest that a fraction may come to 0 and 1. Decrease it for large bags, where such fractions say more.

    References
    ----------
    Rüping, SVM classifier estimation from group probabilities, ICML 2010.
    """

    card = ModelCard("inv-cal", ("fraction",), "Rüping 2010", "own, instances independent")

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        tolerance: float = 0.1,
        clip: float = 0.02,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.tolerance = tolerance
        self.clip = clip
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check_kernel_settings(self.kernel, self.C, self.gamma)
        check.check_positive("tolerance", self.tolerance, zero=True)
        check.check_below("clip", check.check_positive("clip", self.clip), 0.5)

    def _learn(self, bags: Bags, fraction: Floats, random: np.random.RandomState) -> RowFunction:
        gamma = kernel_width(self.kernel, self.gamma, bags)
        target = logit(np.clip(fraction, self.clip, 1.0 - self.clip))
        solver = SVR(kernel="precomputed", C=self.C, epsilon=self.tolerance).fit(mean_gram(bags, gamma), target)
        of_bags = np.zeros(len(bags))
        of_bags[solver.support_] = solver.dual_coef_[0]
        return RowFunction.of(bags.X, (of_bags / bags.sizes)[bags.index], solver.intercept_[0], gamma)
