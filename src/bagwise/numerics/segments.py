"""Reductions over ragged segments of rows, without padding and without a loop (theory section 0.2)."""

import torch
from torch import Tensor


class Segments:
    """Where the bags lie in a run of rows, and reductions over each of them along the first dimension."""

    def __init__(self, offsets: Tensor) -> None:
        self.offsets = offsets
        self.sizes = offsets.diff()
        self.index = torch.arange(len(self.sizes), device=offsets.device).repeat_interleave(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def sum(self, x: Tensor) -> Tensor:
        """Sum over each bag, differentiable any number of times."""
        if x.requires_grad:  # the faster reduction has a first derivative only
            return x.new_zeros(len(self), *x.shape[1:]).index_add(0, self.index, x)
        return torch.segment_reduce(x, "sum", offsets=self.offsets, axis=0)

    def max(self, x: Tensor) -> Tensor:
        """Maximum over each bag."""
        return torch.segment_reduce(x, "max", offsets=self.offsets, axis=0)

    def logsumexp(self, x: Tensor) -> Tensor:
        """log of the sum of exponentials over each bag; -inf where every entry is."""
        top = self.max(x.detach())
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        return torch.log(self.sum(torch.exp(x - self.spread(top)))) + top

    def first_largest(self, x: Tensor) -> Tensor:
        """(b,) the first row of each segment whose entry of x (n,) is the largest."""
        largest = x == self.spread(self.max(x))
        rows = torch.arange(len(x), device=x.device)
        return torch.segment_reduce(
            torch.where(largest, rows, len(x)).double(), "min", offsets=self.offsets, axis=0
        ).long()

    def spread(self, values: Tensor) -> Tensor:
        """One value per bag, repeated on each of its rows."""
        return values.index_select(0, self.index)
