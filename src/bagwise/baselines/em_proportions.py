"""EM from proportions: labels that agree with every bag's fraction, and a logistic regression, in turn."""

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.fraction_baseline import FractionBaseline
from bagwise.baselines._base.kernel_settings import centres_of, check_kernel_settings, kernel_width
from bagwise.baselines._base.machines import Floats, RowFunction, kernel_matrix
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.baselines.annealed_svm import beliefs_with_sum
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.models._base.saved import ModelCard

_SETTLED = 1e-3  # mean change of the beliefs


@documented_baseline
class EMProportions(FractionBaseline):
    """EM with a logistic regression: beliefs that sum to the fraction of their bag, and a regression, in turn.

    At first every instance is positive with the fraction of its bag. Then the log odds of the regression are shifted in
    each bag until its beliefs sum to the fraction, and the regression is fitted to these beliefs.

    EM finds a local optimum, and with bags of about the same fraction it hardly leaves its start. Fractions are taken
    as exact.

    References
    ----------
    Dempster, Laird & Rubin, Maximum likelihood from incomplete data via the EM algorithm, Journal of the Royal
    Statistical Society B 39, 1977: the scheme. There is no one paper behind its use with fractions.
    """

    card = ModelCard("em-proportions", ("fraction",), "EM with a logistic regression", "own, instances independent")

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        n_centres: int = 100,
        max_rounds: int = 100,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.n_centres = n_centres
        self.max_rounds = max_rounds
        self.standardize = standardize
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check_kernel_settings(self.kernel, self.C, self.gamma)
        check.check_count("n_centres", self.n_centres)
        check.check_count("max_rounds", self.max_rounds)

    def _learn(self, bags: Bags, fraction: Floats, random: np.random.RandomState) -> RowFunction:
        gamma = kernel_width(self.kernel, self.gamma, bags)
        centres = centres_of(bags, gamma, self.n_centres, random)
        features = kernel_matrix(bags.X, centres, gamma)
        belief = fraction[bags.index]
        for _ in range(self.max_rounds):
            weights, intercept = self._regression(features, belief)
            before, belief = belief, consistent(features @ weights + intercept, bags, fraction)
            if np.abs(belief - before).mean() < _SETTLED:
                break
        else:
            warn_user(
                f"EM did not settle within {self.max_rounds} rounds; the last one is used. Increase max_rounds.",
                ConvergenceWarning,
            )
        return RowFunction.of(centres, weights, intercept, gamma)

    def _regression(self, features: Floats, belief: Floats) -> tuple[Floats, float]:
        """Every instance as a positive and as a negative, each with its share."""
        weight = np.concatenate([belief, 1.0 - belief])
        labels = np.repeat([1, 0], len(belief))
        if weight[labels == 1].sum() == 0.0 or weight[labels == 0].sum() == 0.0:  # all bags are pure, of one kind
            return np.zeros(features.shape[1]), 30.0 * float(np.sign(belief[0] - 0.5))
        solver = LogisticRegression(C=self.C, max_iter=1000)
        solver.fit(np.concatenate([features, features]), labels, sample_weight=weight)
        return solver.coef_[0], float(solver.intercept_[0])


def consistent(odds: Floats, bags: Bags, fraction: Floats) -> Floats:
    """Beliefs whose log odds are shifted in every bag so that they sum to its fraction; pure bags are certain."""
    found = beliefs_with_sum(odds, bags, fraction * bags.sizes, exactly=True)
    share = fraction[bags.index]
    return np.where((share == 0.0) | (share == 1.0), share, found)
