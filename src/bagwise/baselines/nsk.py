"""Normalised set kernel: a support vector machine of bags by the mean kernel of their instances."""

import numpy as np
from sklearn.svm import SVC

from bagwise.bags import Bags
from bagwise.baselines._base.kernel_baseline import KernelBaseline, mean_gram
from bagwise.baselines._base.machines import Floats, MeanRow, RowFunction
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard


@documented_baseline
class NSK(KernelBaseline):
    """Normalised set kernel: a support vector machine of bags; two bags are as alike as their instances on average.

    ``K(A, B) = Σ k(x, z) / (|A| |B|)`` over the instances x of A and z of B. The machine's function of a bag is then
    the mean of a function of its instances, which is also what it says of an instance.

    It fails where one instance in many decides: the mean washes it out. Where the composition of the bag matters it is
    hard to beat.

    References
    ----------
    Gärtner, Flach, Kowalczyk & Smola, Multi-instance kernels, ICML 2002 (normalised by the number of instances);
    Bunescu & Mooney, Multiple instance learning for sparse positive bags, ICML 2007: section 4.1.
    """

    card = ModelCard("nsk", ("label",), "Gärtner et al. 2002", "calibrated")

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> MeanRow:
        gamma = self._gamma(bags)
        solver = SVC(C=self.C, kernel="precomputed").fit(mean_gram(bags, gamma), y, sample_weight=weight)
        of_bags = np.zeros(len(bags))
        of_bags[solver.support_] = solver.dual_coef_[0]
        weights = (of_bags / bags.sizes)[bags.index]
        return MeanRow(RowFunction.of(bags.X, weights, solver.intercept_[0], gamma))
