"""Where the search for a kernel begins."""

from typing import Any

from bagwise.bags import Bags
from bagwise.gp.features import own_scale
from bagwise.gp.kernel_parameters import VARIANCE_CENTRE
from bagwise.gp.kernels import trainable_kernel


def start_kernel(estimator: Any, bags: Bags, width: int | None = None, kind: Any = None) -> Any:
    """The kernel that an estimator begins with: as given, or with a variance (and lengthscales) to be learned.

    Its settings ``learn`` and ``ard`` (one lengthscale per feature) stand beside ``kernel`` and ``lengthscale``.
    ``width`` is that of the rows as the kernel sees them, where these are not the user's; ``kind`` is another kernel
    than the estimator's own.
    """
    kernel = estimator.kernel if kind is None else kind
    if not estimator.learn and not estimator.ard:
        return kernel
    lengthscale = estimator.lengthscale
    if lengthscale is None and width is None:
        lengthscale = own_scale(bags, kernel, estimator.standardize)
    variance = VARIANCE_CENTRE if estimator.learn else 1.0
    return trainable_kernel(kernel, width or bags.n_features, lengthscale, variance, estimator.ard)
