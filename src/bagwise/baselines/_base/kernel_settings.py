"""Kernels of rows: their settings, and rows that stand for all others."""

from typing import Any

import numpy as np

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.machines import Floats


def centres_of(bags: Bags, gamma: float, n_centres: int, random: np.random.RandomState) -> Floats:
    """Rows by which the kernel describes a row: some at random, or the axes where it is linear."""
    if gamma == 0.0:
        return np.eye(bags.n_features)
    chosen: Floats = bags.X[np.sort(random.permutation(bags.n_instances)[:n_centres])]
    return chosen


def check_kernel_settings(kernel: Any, C: Any, gamma: Any) -> None:
    """A kernel by name, a positive penalty, a positive width or None."""
    check.check_option("kernel", kernel, ("rbf", "linear"))
    check.check_positive("C", C)
    if gamma is not None:
        check.check_positive("gamma", gamma)


def kernel_width(kernel: str, gamma: float | None, bags: Bags) -> float:
    """The width that is meant: 0 for the linear kernel."""
    if kernel == "linear":
        return 0.0
    return 1.0 / bags.n_features if gamma is None else float(gamma)
