"""Reductions over ragged segments of rows, without padding and without a loop (theory section 0.2)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

_WIDE = 8  # columns from which on adding row by row is faster than adding column by column
_PIECE = 64  # rows that one thread of a GPU adds up


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


class _Pieces(NamedTuple):
    """Long segments cut into short pieces: where these lie among the rows, and where the segments among the pieces."""

    offsets: Tensor
    segments: Tensor


class _OrderedSum(torch.autograd.Function):
    """Sums of segments, row after row, which can be differentiated any number of times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, segments: "Segments") -> Tensor:
        """One sum for every segment and column."""
        ctx.segments = segments
        return segments.ordered_sum(x.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """What a segment is given goes to each of its rows."""
        return ctx.segments.spread(gradient), None


class _OrderedSpread(torch.autograd.Function):
    """Values of segments on each of their rows; what the rows are given is added up in their order."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: "Segments") -> Tensor:
        """One value for every row."""
        ctx.segments = segments
        return values.index_select(0, segments.index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """By sums over segments."""
        return ctx.segments.sum(gradient), None


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
            total: Tensor = _OrderedSum.apply(x, self)  # type: ignore[no-untyped-call]
            return total
        return self.ordered_sum(x)

    def ordered_sum(self, x: Tensor) -> Tensor:
        """The same without a derivative, row after row.

        (A GPU has one thread for every sum. It is done sooner if each of a long segment's threads adds a piece of it.)
        """
        if x.device.type == "cpu" or len(x) <= _PIECE * len(self):
            return torch.segment_reduce(x, "sum", offsets=self.offsets, axis=0)
        return self.sum_by_pieces(x)

    def sum_by_pieces(self, x: Tensor) -> Tensor:
        """The same, piece by piece."""
        pieces = torch.segment_reduce(x.contiguous(), "sum", offsets=self._pieces.offsets, axis=0)
        return torch.segment_reduce(pieces, "sum", offsets=self._pieces.segments, axis=0)

    @cached_property
    def _pieces(self) -> _Pieces:
        counts = (self.sizes + _PIECE - 1) // _PIECE
        segments = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        owner = torch.arange(len(self), device=counts.device).repeat_interleave(counts)
        number = torch.arange(len(owner), device=counts.device) - segments[owner]
        starts = self.offsets[owner] + _PIECE * number
        return _Pieces(torch.cat([starts, self.offsets[-1:]]), segments)

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
        """One value per bag, repeated on each of its rows.

        (To differentiate that on a GPU torch keeps to no order, and lets the rows of a bag wait for each other.)
        """
        if values.requires_grad and values.device.type != "cpu":
            repeated: Tensor = _OrderedSpread.apply(values, self)  # type: ignore[no-untyped-call]
            return repeated
        return values.index_select(0, self.index)
