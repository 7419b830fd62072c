"""What the models have in common that learn their kernel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.gp import kernels
from bagwise.gp.features import Features
from bagwise.gp.kernel_parameters import VARIANCE_CENTRE


class LearnedKernel:
    """Mixin: where the search for a kernel begins, and what it found.

    Settings ``learn`` and ``ard`` (one lengthscale per feature) beside ``kernel`` and ``lengthscale``.
    """

    learn: bool
    ard: bool
    kernel: Any
    lengthscale: float | None
    features_: Features
    n_features_in_: int

    @property
    def kernel_(self) -> Any:
        """The gpytorch kernel, in units of standardised features."""
        return self.features_.kernel

    @property
    def relevance_(self) -> NDArray[np.float64] | None:
        """Share of every feature in the squared inverse lengthscales; None for kernels without."""
        return kernels.relevance(self.features_.kernel, self.n_features_in_)

    def _start_kernel(self, n_features: int) -> Any:
        if not self.learn and not self.ard:
            return self.kernel
        variance = VARIANCE_CENTRE if self.learn else 1.0
        return kernels.trainable_kernel(self.kernel, n_features, self.lengthscale, variance, self.ard)
