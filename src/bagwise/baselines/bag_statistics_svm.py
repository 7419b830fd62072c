"""A support vector machine on the mean, minimum and maximum of every feature over the bag."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.baseline import Baseline, dense_rows
from bagwise.baselines._base.machines import Floats, Machine, RowFunction, bag_means, largest
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.exceptions import BagDataError
from bagwise.models._base.saved import ModelCard


def bag_statistics(bags: Bags) -> Floats:
    """Mean, minimum and maximum of every feature over each bag, side by side: (B, 3 D)."""
    rows = dense_rows(bags.X)
    return np.column_stack([bag_means(rows, bags), -largest(-rows, bags), largest(rows, bags)])


@dataclass(frozen=True)
class StatisticsMachine(Machine):
    """A function of scaled statistics, and the constants that were chosen for it."""

    shift: Floats  # (3 D,)
    scale: Floats  # (3 D,)
    function: RowFunction
    C: float
    gamma: float  # 0 for the linear kernel

    def scores(self, bags: Bags) -> Floats:
        """(B,) signed distances."""
        return self.function.values((bag_statistics(bags) - self.shift) / self.scale)


@documented_baseline
class BagStatisticsSVM(Baseline):
    """Support vector machine on per-bag statistics; its constants are chosen by cross-validation inside ``fit``.

    Every bag becomes one row: the mean, the smallest and the largest value of each feature. Penalty and width are those
    with the best accuracy in ``cv`` folds of the training bags; with a single bag of a class none can be held out, and
    the middle ones of the lists are taken. Decisions are the machine's own unless ``calibration`` is "sigmoid".

    It knows bags only: an instance is judged as a bag of one, whose mean, minimum and maximum are the same. It fails
    where single instances decide that lie inside the range of the others.

    Parameters
    ----------
    C : sequence of float
        Penalties to choose from. Extend the list where the chosen one (``machines_[0].machine.C``) is at its end.
    gamma : sequence of float
        Inverse widths of the Gaussian kernel to choose from, for standardised statistics. Extend the list where the
        chosen one (``machines_[0].machine.gamma``) is at its end.
    cv : int
        Number of folds, of the search and of the calibration; fewer are made where a class has fewer bags. The search
        is made ``cv`` + 1 times. Increase it for small data.
    standardize : bool
        Shift and scale every statistic to mean 0 and variance 1. Use False if the features have a common unit.

    References
    ----------
    Gärtner, Flach, Kowalczyk & Smola, Multi-instance kernels, ICML 2002: section 4.2, the minimax kernel, with the mean
    beside it.
    """

    weighs_bags = True
    card = ModelCard("bag-statistics-svm", ("label",), "Gärtner et al. 2002, with the mean", "calibrated")

    def __init__(
        self,
        kernel: str = "rbf",
        C: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        gamma: Sequence[float] = (1e-4, 1e-3, 1e-2),
        cv: int = 5,
        standardize: bool = True,
        calibration: str = "slope",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.cv = cv
        self.standardize = standardize
        self.calibration = calibration
        self.random_state = random_state

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_option("kernel", self.kernel, ("rbf", "linear"))
        for name in ("C", "gamma"):
            _check_numbers(name, getattr(self, name))

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> StatisticsMachine:
        rows = bag_statistics(bags)
        scaler, solver = self._searched(rows, y, weight)
        shift = np.zeros(rows.shape[1]) if scaler.mean_ is None else scaler.mean_
        scale = np.ones(rows.shape[1]) if scaler.scale_ is None else scaler.scale_
        weights, gamma = np.zeros(len(rows)), float(solver.gamma) if self.kernel == "rbf" else 0.0
        weights[solver.support_] = solver.dual_coef_[0]
        function = RowFunction.of(scaler.transform(rows), weights, solver.intercept_[0], gamma)
        return StatisticsMachine(shift, scale, function, float(solver.C), gamma)

    def _searched(self, rows: Floats, y: Floats, weight: Floats) -> Any:
        """Scaler and machine with the penalty and the width of the best accuracy on bags held out."""
        scaler = StandardScaler(with_mean=self.standardize, with_std=self.standardize)
        machine = Pipeline([("scaler", scaler), ("svc", SVC(kernel=self.kernel))])
        grid = {"svc__C": list(self.C)} | ({"svc__gamma": list(self.gamma)} if self.kernel == "rbf" else {})
        folds = min(self.cv, int(np.bincount(y.astype(int)).min()))
        if folds < 2:
            middle = {name: float(values[len(values) // 2]) for name, values in grid.items()}
            return machine.set_params(**middle).fit(rows, y, svc__sample_weight=weight)
        splitter = StratifiedKFold(folds, shuffle=True, random_state=self.random_state)
        return GridSearchCV(machine, grid, cv=splitter).fit(rows, y, svc__sample_weight=weight).best_estimator_


def _check_numbers(name: str, values: Any) -> None:
    if np.ndim(values) != 1 or len(values) == 0:
        raise BagDataError(f"{name}={values!r}: expected a list of numbers to choose from.")
    for value in values:
        check.check_positive(name, float(value))
