"""Baselines on support vector machines: their settings, and the machine of single rows."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.baseline import Baseline
from bagwise.baselines._base.kernel_settings import check_kernel_settings, kernel_width
from bagwise.baselines._base.machines import Floats, RowFunction, kernel_matrix
from bagwise.numerics.blocks import blocks

_CACHE = 500  # MB of kernel values that a solver keeps


class KernelBaseline(Baseline):
    """A baseline with a kernel, a penalty and a width."""

    weighs_bags: ClassVar[bool] = True  # by the penalties of their rows

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.standardize = standardize
        self.calibration = calibration
        self.cv = cv
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check_kernel_settings(self.kernel, self.C, self.gamma)

    def _gamma(self, bags: Bags) -> float:
        return kernel_width(self.kernel, self.gamma, bags)

    def _row_svm(self, rows: Floats, y: NDArray[Any], gamma: float, weight: Floats | None = None) -> RowFunction:
        """The support vector machine of rows with labels of 0 and 1, each with its share of the penalty."""
        return row_svm(rows, y, self.C, gamma, weight)


class AlternatingSVM(KernelBaseline):
    """A support vector machine that is fitted in turn with a choice about the instances of positive bags."""

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        max_rounds: int = 50,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel, C, gamma, standardize, calibration, cv, random_state)
        self.max_rounds = max_rounds

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("max_rounds", self.max_rounds)


def row_svm(rows: Floats, y: NDArray[Any], C: float, gamma: float, weight: Floats | None = None) -> RowFunction:
    """The support vector machine of rows with labels of 0 and 1 (or False and True)."""
    solver = SVC(C=C, kernel="rbf" if gamma else "linear", gamma=gamma or "scale", cache_size=_CACHE)
    solver.fit(rows, np.asarray(y) > 0, sample_weight=weight)
    weights = np.zeros(len(rows))
    weights[solver.support_] = solver.dual_coef_[0]
    return RowFunction.of(rows, weights, solver.intercept_[0], gamma)


def mean_gram(bags: Bags, gamma: float) -> Floats:
    """(B, B) the kernel of mean feature vectors: the mean of k(x, z) over the rows x, z of two bags."""
    starts, sizes = bags.offsets[:-1], bags.sizes
    by_bag = np.empty((len(bags), bags.n_instances))
    for part in blocks(bags.n_instances, bags.n_instances):
        by_bag[:, part] = np.add.reduceat(kernel_matrix(bags.X, bags.X[part], gamma), starts, axis=0)
    found: Floats = np.add.reduceat(by_bag, starts, axis=1) / sizes / sizes[:, None]
    return found
