"""MICA: convex combinations of instances stand for positive bags; sparse weights by linear programming."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.alternation import alternate
from bagwise.baselines._base.kernel_baseline import AlternatingSVM
from bagwise.baselines._base.kernel_settings import centres_of
from bagwise.baselines._base.linear_programme import one_norm_svm
from bagwise.baselines._base.machines import Floats, LargestRow, RowFunction, bag_means, first_largest, kernel_matrix
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class MICA(AlternatingSVM):
    """MICA: convex combinations stand for positive bags, fitted in turn with weights of a small absolute sum.

    The combination starts at the mean of the bag. Given the weights, the best one puts everything on the most positive
    instance (a linear function over convex combinations is largest at a corner), which is what is taken here where the
    linear programme of the paper leaves a choice. A bag is as positive as its most positive instance.

    The alternation finds a local optimum. Linear programmes grow slow with thousands of negative instances.

    References
    ----------
    Mangasarian & Wild, Multiple instance classification via successive linear programming, Journal of Optimization
    Theory and Applications 137, 2008.
    """

    card = ModelCard("mica", ("label",), "Mangasarian & Wild 2008", "calibrated")

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        n_centres: int = 100,
        max_rounds: int = 50,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel, C, gamma, max_rounds, standardize, calibration, cv, random_state)
        self.n_centres = n_centres

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("n_centres", self.n_centres)

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> LargestRow:
        gamma = self._gamma(bags)
        centres = centres_of(bags, gamma, self.n_centres, random)
        features = kernel_matrix(bags.X, centres, gamma)
        positive, in_positive = bags[y == 1], y[bags.index] == 1
        own, negatives = features[in_positive], features[~in_positive]
        sign = np.repeat([1.0, -1.0], [len(positive), len(negatives)])
        times = np.concatenate([weight[y == 1], weight[bags.index][~in_positive]])

        def learn(witnesses: NDArray[Any]) -> tuple[Floats, float]:
            return one_norm_svm(np.concatenate([witnesses, negatives]), sign, self.C * times)

        def choose(machine: tuple[Floats, float]) -> NDArray[Any]:
            rows: NDArray[Any] = own[first_largest(own @ machine[0], positive)]
            return rows

        weights, intercept = alternate(learn, choose, bag_means(own, positive), self.max_rounds)
        return LargestRow(RowFunction.of(centres, weights, intercept, gamma))
