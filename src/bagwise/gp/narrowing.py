"""Wide rows made narrow without loss, for kernels that see lengths and distances only.

With the columns of Q an orthonormal basis of the span of the R inducing inputs z,

    x' = (Qᵀx, √(|x|² − |Qᵀx|²)),   z' = (Qᵀz, 0),

so x'·z' = x·z, |x'| = |x| and |x' − z'| = |x − z|: k(x, z), k(z, z') and k(x, x) are what they were, and cost R + 1
numbers per row instead of D. (k between two rows that are no inducing inputs is not kept.)
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.gp.kernels import Kernel, is_isotropic

_WIDE = 2  # times as many columns as inducing inputs, from which the turn is worth its product


class Narrowing(NamedTuple):
    """The turn of the axes."""

    basis: Tensor  # (D, R)

    def __call__(self, x: Tensor) -> Tensor:
        """Rows as they look from the inducing inputs, (n, R + 1)."""
        inside = x @ self.basis
        rest = (x.square().sum(1) - inside.square().sum(1)).clamp(min=0.0).sqrt()
        return torch.cat([inside, rest[:, None]], dim=1)

    def inducing(self, z: Tensor) -> Tensor:
        """The inducing inputs themselves, of which no rest is left, not even that of rounding."""
        inside = z @ self.basis
        return torch.cat([inside, torch.zeros_like(inside[:, :1])], dim=1)


def narrowing(kernel: Kernel, inducing: Tensor) -> Narrowing | None:
    """How rows become narrow for a kernel and inducing inputs that stay; None where they cannot or need not."""
    n_inducing, width = inducing.shape
    if width <= _WIDE * n_inducing or inducing.requires_grad or not is_isotropic(kernel):
        return None
    return Narrowing(torch.linalg.qr(inducing.T)[0])
