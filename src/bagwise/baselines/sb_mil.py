"""sbMIL: a machine for bags with few positives orders instances, a second one learns from the order."""

from typing import Any

import numpy as np

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.kernel_baseline import KernelBaseline, mean_gram
from bagwise.baselines._base.machines import Floats, LargestRow, RowFunction
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.baselines._base.smo import svm_with_margins
from bagwise.exceptions import BagDataError
from bagwise.models._base.saved import ModelCard


@documented_baseline
class SbMIL(KernelBaseline):
    """sbMIL: sparse MIL orders the instances of positive bags, a machine of instances learns from the first of them.

    Sparse MIL treats a positive bag of n instances as its mean and asks of it only what one positive among n
    instances would give: a margin of (2 - n) / n; negative instances stand alone. The share ``eta`` of the instances
    of positive bags that it places highest are then positive, the others negative, and an ordinary machine learns
    from these labels. A bag is as positive as its most positive instance.

    It needs to know how dense positives are. A bag may end up without a positive. Where the first machine orders
    badly, the second one learns the mistake.

    Parameters
    ----------
    eta : float
        Share of positives among the instances of positive bags, above 0 and at most 1. Change it to what you know, or
        compare several by cross-validation.

    References
    ----------
    Bunescu & Mooney, Multiple instance learning for sparse positive bags, ICML 2007: sections 3 and 5.
    """

    weighs_bags = False  # it counts the instances of positive bags
    card = ModelCard("sb-mil", ("label",), "Bunescu & Mooney 2007", "calibrated")

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        eta: float = 0.5,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel, C, gamma, standardize, calibration, cv, random_state)
        self.eta = eta

    def _check_settings(self) -> None:
        super()._check_settings()
        if check.check_positive("eta", self.eta) > 1.0:
            raise BagDataError(f"eta={self.eta!r}: expected a share of at most 1.")

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> LargestRow:
        gamma, in_positive = self._gamma(bags), np.flatnonzero(y[bags.index] == 1)
        order = np.argsort(-sparse_mil(bags, y, self.C, gamma).values(bags.X[in_positive]), kind="stable")
        labels = np.zeros(bags.n_instances)
        labels[in_positive[order[: max(1, round(self.eta * len(order)))]]] = 1.0
        return LargestRow(self._row_svm(bags.X, labels, gamma))


def sparse_mil(bags: Bags, y: Floats, C: float, gamma: float) -> RowFunction:
    """The machine of sparse MIL, as a function of rows."""
    group = np.where(y[bags.index] == 1, bags.index, len(bags) + np.arange(bags.n_instances))
    split = Bags(bags.X, group)  # positive bags, and every negative instance as a bag of one
    sign = np.where(y[bags.index[split.rows[split.offsets[:-1]]]] == 1, 1.0, -1.0)
    margin = np.where(sign > 0, (2.0 - split.sizes) / split.sizes, 1.0)
    beta, intercept = svm_with_margins(mean_gram(split, gamma), sign, margin, C)
    return RowFunction.of(split.X, (beta / split.sizes)[split.index], intercept, gamma)
