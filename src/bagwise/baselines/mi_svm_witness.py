"""MI-SVM: a support vector machine of one witness per positive bag."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.baselines._base.alternation import alternate
from bagwise.baselines._base.kernel_baseline import AlternatingSVM
from bagwise.baselines._base.machines import Floats, LargestRow, RowFunction, bag_means, first_largest
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class MISVM(AlternatingSVM):
    """MI-SVM: a support vector machine of one witness per positive bag and all instances of negative bags.

    At first the witness is the mean of the bag; then it is the instance that the machine calls most positive. A bag is
    as positive as its most positive instance.

    Instances of negative bags have one slack each, not one per bag. The machine learns from as many positives as there
    are positive bags: with large negative bags it is easily drowned. The alternation finds a local optimum near its
    start.

    References
    ----------
    Andrews, Tsochantaridis & Hofmann, Support vector machines for multiple-instance learning, NIPS 2002: figure 2.
    """

    card = ModelCard("mi-svm-witness", ("label",), "Andrews, Tsochantaridis & Hofmann 2002", "calibrated")

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> LargestRow:
        negatives, gamma = bags.X[y[bags.index] == 0], self._gamma(bags)
        positives = bags[y == 1]
        labels = np.repeat([1, 0], [len(positives), len(negatives)])
        times = np.concatenate([weight[y == 1], weight[bags.index][y[bags.index] == 0]])

        def learn(witnesses: NDArray[Any]) -> RowFunction:
            return self._row_svm(np.concatenate([witnesses, negatives]), labels, gamma, times)

        def choose(function: RowFunction) -> NDArray[Any]:
            rows: NDArray[Any] = positives.X[first_largest(function.values(positives.X), positives)]
            return rows

        return LargestRow(alternate(learn, choose, bag_means(positives.X, positives), self.max_rounds))
