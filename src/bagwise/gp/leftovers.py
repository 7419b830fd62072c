"""What the features leave over of f, shared inside a bag as the kernel has it (theory section 13.4).

f = φᵀv + r with r ~ N(0, C), C = k(X, X) − Φ Φᵀ within a bag. Taken as independent, look-alike instances would each get
a chance of their own to be positive. A pivoted Cholesky factorisation C ≈ U Uᵀ + diag(d) of all bags side by side, a
column at a time, keeps what they share; what remains is left independent.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.gp import kernels
from bagwise.numerics.blocks import in_stretches
from bagwise.numerics.segments import Segments

RANK = 32
NEGLIGIBLE = 1e-4  # a leftover variance up to this makes no difference whether it is shared or not
_REST = 0.01  # share of what was left over at which the factorisation of a bag is good enough
_NOTHING = 1e-6  # a variance below this makes no difference to any probability


class Leftover(NamedTuple):
    """r = U u + N(0, d): ``shared`` is U (n, rank), ``rest`` is d (n,)."""

    shared: Tensor
    rest: Tensor


@torch.no_grad()
def share_leftover(kernel: Any, x: Tensor, phi: Tensor, kappa: Tensor, segments: Segments, weight: Tensor) -> Leftover:
    """Factor what is left over in every bag; pivots are where much is left and ``weight`` (n,) is large.

    ``x`` are rows as the kernel sees them, ``phi`` their features without constant and size. A bag of one shares
    nothing, nor does one with a negligible leftover, whatever the company.
    """
    sharing = (segments.sizes > 1) & (segments.max(kappa) > NEGLIGIBLE)
    several = segments.spread(sharing)
    rest, columns = kappa.clone(), list[Tensor]()
    enough = _REST * segments.sum(kappa) + _NOTHING * segments.sizes
    for _ in range(min(RANK, int(segments.sizes.max()))):
        open_bags = (segments.sum(rest) > enough) & sharing
        if not bool(open_bags.any()):
            break
        pivots = segments.first_largest(rest * weight)
        columns.append(_column(kernel, x, phi, columns, rest, segments, pivots, open_bags))
        rest = torch.where(several, (rest - columns[-1].square()).clamp(min=0.0), rest)
        rest[pivots[open_bags]] = 0.0
    shared = torch.stack(columns, dim=1) if columns else phi.new_zeros(len(phi), 0)
    return Leftover(shared, rest)


def _column(
    kernel: Any,
    x: Tensor,
    phi: Tensor,
    columns: list[Tensor],
    rest: Tensor,
    segments: Segments,
    pivots: Tensor,
    open_bags: Tensor,
) -> Tensor:
    """The next column of U: C against the pivot of the bag, less what the columns before explain, over its root."""
    own = segments.spread(pivots)
    alike = in_stretches(lambda rows, pivot: kernels.pairs(kernel, rows, x[pivot]), x, own)
    covariance = alike - in_stretches(lambda rows, pivot: torch.linalg.vecdot(rows, phi[pivot]), phi, own)
    for column in columns:
        covariance = covariance - column * column[own]
    root = rest[pivots].clamp(min=_NOTHING).sqrt()
    found: Tensor = torch.where(segments.spread(open_bags), covariance / segments.spread(root), 0.0)
    return found
