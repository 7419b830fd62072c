"""Where the search for a kernel begins, and a warning where it did not end."""

from typing import Any

from bagwise.bags import Bags
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.gp.ground import own_scale
from bagwise.gp.kernel_parameters import VARIANCE_CENTRE
from bagwise.gp.kernels import trainable_kernel
from bagwise.inference.kernel_learning.search import unsettled
from bagwise.inference.loop import Trace
from bagwise.models._base.flat_evidence import stays, stays_unsettled


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


def warn_if_unsettled(trace: Trace | None) -> None:
    """Warn where a search for a kernel stopped before it had settled; an interrupted one is the user's own choice."""
    if trace is not None and not trace.converged and not trace.interrupted:
        warn_user(stays_unsettled(trace) if stays(trace) else unsettled(trace), ConvergenceWarning)
