"""Where the search for a kernel begins."""

from typing import Any

from bagwise.gp.kernel_parameters import VARIANCE_CENTRE
from bagwise.gp.kernels import trainable_kernel


def start_kernel(estimator: Any, n_features: int) -> Any:
    """The kernel that an estimator begins with: as given, or with a variance (and lengthscales) to be learned.

    Its settings ``learn`` and ``ard`` (one lengthscale per feature) stand beside ``kernel`` and ``lengthscale``.
    """
    if not estimator.learn and not estimator.ard:
        return estimator.kernel
    variance = VARIANCE_CENTRE if estimator.learn else 1.0
    return trainable_kernel(estimator.kernel, n_features, estimator.lengthscale, variance, estimator.ard)
