"""Rows to learn a kernel from: standardised, in chunks of whole bags, with what their bags say.

What a judge asks of them is a sum over chunks (theory section 14): sweeps over features at the present kernel, and the
gradient of a sum over chunks in the kernel's parameters. So whatever holds chunks can do the work (``LearningRows``).
``RowsHere`` are for judges that look at all rows at once.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Features, bag_slices, traced_design
from bagwise.gp.narrowing import Narrowing, narrowing
from bagwise.inference.chunks import BagModel, Chunk, Extent, HeldChunks, Sums, Told
from bagwise.inference.places import PLACE
from bagwise.numerics.segments import Segments

CHUNK_ROWS = 8192
_GRAPH_BYTES = 2**30  # that a backward pass through a chunk of very many rows may hold …
_TABLES = 6  # … in so many tables of features …
_NUMBERS = 768  # … and so many numbers besides for every row
_INDUCING = "inducing inputs"  # no parameter of a kernel has a name with a blank

Value = Callable[[Chunk, Any, Told], Tensor]  # what a chunk, with what it remembers, adds to something differentiable


class _Source(NamedTuple):
    """Where the rows of a chunk come from, and what their bags say."""

    bags: Bags
    evidence: Any


class _Part(NamedTuple):
    """The rows of a chunk in memory, as a kernel sees them."""

    x: Tensor
    segments: Segments
    log_sizes: Tensor
    evidence: Any


class AtKernel(NamedTuple):
    """Features at another kernel, with other inducing inputs."""

    features: Features
    kernel: Any
    inducing: Tensor

    def chunk(self, part: _Part) -> Chunk:
        """Some rows, as a differentiable function of the kernel and the inducing inputs."""
        design = traced_design(*self, part.x, part.segments, part.log_sizes)
        return Chunk(design, part.evidence)

    def now(self) -> "AtKernel":
        """The same for ever: the search moves the kernel on, and lost work may be done again later."""
        return AtKernel(self.features, *copy.deepcopy((self.kernel, self.inducing)))

    def free(self) -> dict[str, Tensor]:
        """What is learned, by name."""
        named = {name: value for name, value in self.kernel.named_parameters() if value.requires_grad}
        return {**named, _INDUCING: self.inducing} if self.inducing.requires_grad else named


def most_rows(features: Features) -> int:
    """Rows of a chunk at most, however many there are: a backward pass holds several times what the features take."""
    return _GRAPH_BYTES // ((_TABLES * features.n_columns + _NUMBERS) * features.dtype.itemsize)


def _sources(features: Features, bags: Bags, model: BagModel, chunk_rows: int) -> Iterator[_Source]:
    for part in bag_slices(bags.offsets, chunk_rows):
        yield _Source(bags[part], model.chunk(part, features.dtype, features.device))


class _Sight(NamedTuple):
    """How rows are seen while the kernel moves and the inducing inputs stay."""

    features: Features
    narrow: Narrowing | None

    def __call__(self, X: Any) -> Tensor:
        x = self.features.standardised(X)
        return x if self.narrow is None else self.narrow(x)


def _standardised(sight: _Sight, source: _Source) -> _Part:
    bags, features = source.bags, sight.features
    segments = Segments(torch.from_numpy(bags.offsets.copy()).to(features.device))
    return _Part(sight(bags.X), segments, features.log_sizes(bags.sizes), source.evidence)


@torch.no_grad()
def _design_chunk(at: AtKernel, part: _Part) -> Chunk:
    return at.chunk(part)


@dataclass(frozen=True)
class Slope:
    """A step: the gradient of what every chunk adds to a sum."""

    value: Value

    def __call__(self, part: Any, remembered: Any, told: Told) -> tuple[Sums, Any]:
        """By the names of what is learned."""
        at, shared = told.shared
        free = at.free()
        with torch.enable_grad():
            total = self.value(at.chunk(part), remembered, Told(shared, told.own))
            found = torch.autograd.grad(total, list(free.values()), allow_unused=True)
        pairs = zip(free.items(), found, strict=True)
        return {name: torch.zeros_like(leaf) if one is None else one for (name, leaf), one in pairs}, remembered


class _KernelRows(ABC):
    """A kernel (and inducing inputs) to be moved, and the rows that it is judged by."""

    def __init__(
        self,
        features: Features,
        kernel: Any,
        inducing: Tensor,
        bags: Bags,
        model: BagModel,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        narrow = narrowing(kernel, inducing)
        self._sight = _Sight(features, narrow)
        self._at = AtKernel(features, kernel, inducing if narrow is None else narrow.inducing(inducing))
        self._n_rows = bags.n_instances
        self.n_chunks = len(list(bag_slices(bags.offsets, chunk_rows)))
        self._parts = self._held(_sources(features, bags, model, chunk_rows))

    @abstractmethod
    def _held(self, sources: Iterator[_Source]) -> Any:
        """The rows of all chunks, standardised, wherever they live."""

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return self._at.features.n_columns

    @property
    def device(self) -> torch.device:
        """Where they are computed."""
        return self._at.features.device

    def _extent(self) -> Extent:
        """Of rows, as the kernel sees them, and features: side by side they share what is allowed."""
        at = self._at
        n_bytes = self._n_rows * (at.inducing.shape[1] + self.n_columns + 1) * at.features.dtype.itemsize
        return Extent(self._n_rows, n_bytes, self.device)


class LearningRows(_KernelRows):
    """Rows that a kernel is judged by, wherever chunks live."""

    _parts: HeldChunks

    def _held(self, sources: Iterator[_Source]) -> HeldChunks:
        return PLACE.get().made(sources, _standardised, self._sight, self._extent())

    def chunks(self) -> HeldChunks:
        """Features at the present kernel."""
        return self._parts.made(_design_chunk, self._at.now(), self._extent())

    def differentiate(
        self,
        value: Value,
        shared: Any,
        *,
        remembered: list[Any] | None = None,
        each: Sequence[Any] | None = None,
        further: bool = False,
    ) -> None:
        """Leave the gradient of a sum over chunks in the parameters, or add it to the one that is there (``further``).

        ``value`` sees a chunk at the present kernel, what was remembered of it, and a ``Told``: what is shared, and its
        own entry of ``each``.
        """
        asked = self._parts.through(_as_it_is)
        if remembered is not None:
            asked.remembered = remembered
        own = [None] * self.n_chunks if each is None else each
        sums = asked.sweep(Slope(value), (self._at.now(), shared), own)
        for name, leaf in self._at.free().items():
            found = sums[name].to(leaf)
            leaf.grad = found if leaf.grad is None or not further else leaf.grad + found


def _as_it_is(chunk: Any) -> Any:
    return chunk


class RowsHere(_KernelRows):
    """Rows of this process, for judges that look at all of them at once."""

    _parts: Sequence[_Part]

    def _held(self, sources: Iterator[_Source]) -> Sequence[_Part]:
        return PLACE.get().hold((_standardised(self._sight, source) for source in sources), self._extent())

    def chunks(self) -> Sequence[Chunk]:
        """Features at the present kernel."""
        with torch.no_grad():
            return PLACE.get().hold(self.traced(), self._extent())

    def traced(self) -> Iterator[Chunk]:
        """The same, one chunk after the other, as differentiable functions of the kernel and the inducing inputs."""
        return map(self._at.chunk, self._parts)
