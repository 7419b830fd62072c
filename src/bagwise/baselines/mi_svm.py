"""mi-SVM: a support vector machine of instances whose labels are found together with it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.baselines._base.alternation import alternate
from bagwise.baselines._base.kernel_baseline import AlternatingSVM
from bagwise.baselines._base.machines import Floats, LargestRow, RowFunction, first_largest
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class MiSVM(AlternatingSVM):
    """mi-SVM: a support vector machine of instances, fitted in turn with the labels of instances in positive bags.

    At first these are all positive. Then each gets the sign of the machine; a positive bag without a positive keeps its
    most positive instance. A bag is as positive as its most positive instance.

    The alternation finds a local optimum near its start, so with few positives per bag too many instances stay
    positive. Labels that come back end it.

    References
    ----------
    Andrews, Tsochantaridis & Hofmann, Support vector machines for multiple-instance learning, NIPS 2002: figure 1.
    """

    card = ModelCard("mi-svm", ("label",), "Andrews, Tsochantaridis & Hofmann 2002", "calibrated")

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> LargestRow:
        in_positive, gamma = y[bags.index] == 1, self._gamma(bags)

        def learn(labels: NDArray[Any]) -> RowFunction:
            return self._row_svm(bags.X, labels, gamma, weight[bags.index])

        def choose(function: RowFunction) -> NDArray[Any]:
            values = function.values(bags.X)
            labels: NDArray[Any] = in_positive & (values > 0)
            labels[first_largest(values, bags)[y == 1]] = True
            return labels

        return LargestRow(alternate(learn, choose, in_positive, self.max_rounds))
