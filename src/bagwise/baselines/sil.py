"""Single-instance learning: every instance gets the label of its bag."""

import numpy as np

from bagwise.bags import Bags
from bagwise.baselines._base.kernel_baseline import KernelBaseline
from bagwise.baselines._base.machines import Floats, LargestRow
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class SIL(KernelBaseline):
    """Single-instance learning: a support vector machine of instances that all have the label of their bag.

    A bag is as positive as its most positive instance. The method that ignores bags; everything else should beat it.

    It fails where positive bags hold few positives: their many negatives are then learned as positive, and the
    machine's own decision calls nearly every large bag positive. The calibration mends the level, not the order.

    References
    ----------
    Ray & Craven, Supervised versus multiple instance learning: an empirical comparison, ICML 2005.
    """

    card = ModelCard("sil", ("label",), "Ray & Craven 2005", "calibrated")

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> LargestRow:
        return LargestRow(self._row_svm(bags.X, y[bags.index], self._gamma(bags), weight[bags.index]))
