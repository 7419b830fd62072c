"""log Z_b of (15.3) with its slope and its second derivatives in v, written out (theory section 15.4).

With L_q the log of what is summed over the nodes q of the effect, r their shares of the sum and J the features of rows,

    ∂² log Z/∂v∂vᵀ = Jᵀ [Σ r (L_q″ + L_q′ L_q′ᵀ) − (Σ r L_q′)(Σ r L_q′)ᵀ] J                                 (15.9)
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.counting.expansions import Expansion, crossed, projected
from bagwise.numerics.segments import Segments


class PartExpansion(NamedTuple):
    """What some bags state, expanded: their numbers, their rows."""

    bags: Tensor
    rows: Tensor
    given: Expansion


class TotalExpansion:
    """All bags at the nodes of their effects: what they state given the effect, and the law of the effect, if any."""

    def __init__(
        self, parts: list[PartExpansion], law: Expansion | None, log_weights: Tensor, segments: Segments
    ) -> None:
        self._parts, self._law, self._segments = parts, law, segments
        logs = log_weights if law is None else log_weights + law.logs
        slopes = log_weights.new_zeros(len(segments.index), log_weights.shape[1]) if law is None else law.slope
        for bags, rows, given in parts:
            logs, slopes = logs.index_add(0, bags, given.logs), slopes.index_add(0, rows, given.slope)
        self.logs, self._shares, self._slopes = torch.logsumexp(logs, dim=1), torch.softmax(logs, dim=1), slopes
        self.slope = (segments.spread(self._shares) * slopes).sum(1)  # (n,)

    def curvature(self, times: Tensor, rows: Tensor) -> Tensor:
        """Σ times (15.9), (R, R), over bags; times (b,), rows (n, R)."""
        weight = times[:, None] * self._shares
        each = projected(self._slopes, rows, self._segments)
        mean = (self._shares[..., None] * each).sum(1)
        found = crossed(each, weight, each) - crossed(mean, times, mean)
        if self._law is not None:
            found = found + self._law.curvature(weight, rows)
        for bags, own, given in self._parts:
            found = found + given.curvature(weight[bags], rows[own])
        return found
