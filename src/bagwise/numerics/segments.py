"""Reductions over ragged segments of rows, without padding and without a loop (theory section 0.2)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_WIDE = 8  # columns from which on adding row by row is faster than adding column by column


class BagWeights(NamedTuple):
    """How many times every bag of some segments counts, (b,); None where each counts once."""

    each: Tensor | None = None

    def of_bags(self, x: Tensor) -> Tensor:
        """Values of bags (b, K), each as often as its bag counts."""
        return x if self.each is None else x * self.each.to(x.dtype)[:, None]

    def of_rows(self, x: Tensor, segments: "Segments") -> Tensor:
        """Values of rows (n, K), each as often as its bag counts."""
        return x if self.each is None else x * segments.spread(self.each.to(x.dtype))[:, None]

    def some(self, chosen: Tensor) -> "BagWeights":
        """The weights of some bags."""
        return self if self.each is None else BagWeights(self.each[chosen])

    def joined(self, others: Sequence["BagWeights"]) -> "BagWeights":
        """With the weights of further bags; either all of them have some or none."""
        parts = [one.each for one in (self, *others) if one.each is not None]
        return BagWeights(torch.cat(parts)) if parts else self


ONCE = BagWeights()


class _OrderedSum(torch.autograd.Function):
    """Sums of segments, row after row, which can be differentiated any number of times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, offsets: Tensor, index: Tensor) -> Tensor:
        """One sum for every segment and column."""
        ctx.save_for_backward(index)
        return torch.segment_reduce(x.contiguous(), "sum", offsets=offsets, axis=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """What a segment is given goes to each of its rows."""
        (index,) = ctx.saved_tensors
        return gradient.index_select(0, index), None, None


class Segments:
    """Where the bags lie in a run of rows, and reductions over each of them along the first dimension."""

    def __init__(self, offsets: Tensor, n_rows: int | None = None) -> None:
        self.offsets = offsets
        self.sizes = offsets.diff()
        numbers = torch.arange(len(self.sizes), device=offsets.device)
        self.index = numbers.repeat_interleave(self.sizes, output_size=n_rows)  # without which a GPU has to be asked

    def __len__(self) -> int:
        return len(self.sizes)

    def sum(self, x: Tensor) -> Tensor:
        """Sum over each bag, differentiable any number of times.

        Rows are added in their order either way, so the two ways agree to the last bit. (On a GPU the first does not
        keep to an order, and takes many times as long.)
        """
        wide = x.ndim > 1 and x.shape[1] >= _WIDE
        if x.device.type == "cpu" and (wide or x.requires_grad):
            return x.new_zeros(len(self), *x.shape[1:]).index_add(0, self.index, x)
        if x.requires_grad:
            total: Tensor = _OrderedSum.apply(x, self.offsets, self.index)  # type: ignore[no-untyped-call]
            return total
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
