"""Chunks of whole bags, and who adds up what they say.

Every iteration of every model has the shape

    step(chunk, remembered, shared) -> (sums, remembered)

a chunk of whole bags, what the model remembers about its instances between iterations (stays with the chunk), what
everyone knows (small), and sums that are added over chunks. An inference only ever calls ``sweep``; where the chunks
live (memory, a file, a GPU, other machines) is the business of whoever implements it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Design, Features
from bagwise.numerics.segments import Segments

Sums = dict[str, Tensor]
CPU = torch.device("cpu")


class Extent(NamedTuple):
    """How much chunks take in all."""

    n_rows: int
    n_bytes: int
    device: torch.device = CPU  # whose memory it is


class BagModel(Protocol):
    """What bags say, as a bag model keeps it: cut into chunks on demand."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the bags lie among all instances."""

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> Any:
        """What a run of bags says."""


class Chunk(NamedTuple):
    """Whole bags, ready for arithmetic: their design and what is known about them."""

    design: Design
    evidence: Any  # as the bag model has it
    first: int = 0  # number of its first row among the instances of all chunks


Step = Callable[[Chunk, Any, Any], tuple[Sums, Any]]


View = Callable[[Chunk], Chunk]


class Chunks(Protocol):
    """Anything that can show its chunks to a step and add up the answers."""

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run ``step`` on every chunk, keep what each remembers, return the sums."""


class Told(NamedTuple):
    """What a step is told where every chunk is told something of its own."""

    shared: Any
    own: Any


Make = Callable[[Any, Any], Any]  # what is made of what everyone knows and of a chunk, or of what a chunk comes from


class HeldChunks(Chunks, Protocol):
    """Chunks that can be held in other ways, too."""

    remembered: list[Any]  # what only these chunks can read, and others of the same bags in the same place
    in_this_process: bool  # whether a memory may hold what cannot travel

    def sweep(self, step: Step, shared: Any, each: Sequence[Any] | None = None) -> Sums:
        """As above; with ``each``, one entry per chunk, steps get a ``Told`` in the place of what is shared."""

    def through(self, view: View) -> "HeldChunks":
        """The same chunks, each seen through a function, with a memory of their own."""

    def made(self, make: Make, shared: Any, extent: Extent) -> "HeldChunks":
        """Chunks that are made of these once and held, where they take so much in all."""

    def recalled(self, question: Callable[[Any], Any]) -> list[Any]:
        """What a function says of the memory of every chunk, brought to this process."""

    def for_others(self) -> list[Any]:
        """What is remembered, so that it needs neither these chunks nor those before them any more."""

    def stop_recording(self) -> None:
        """What follows is only the end of a fit that was interrupted: whoever goes on with it must not meet it."""


class TreeSum:
    """Adds sums in a tree that depends on nothing but how many there are: ((0 + 1) + (2 + 3)) + (4 + 5) …

    Whoever adds up, in whatever order answers come, rounds alike; and only log₂ n of them are held at a time.
    """

    def __init__(self) -> None:
        self._open: list[tuple[int, Sums]] = []  # complete subtrees with their heights, the highest first

    def add(self, sums: Sums) -> None:
        """The next sums: of one chunk, or always of the same power of two of chunks (of the last, perhaps fewer)."""
        height, total = 0, {name: value.to(torch.float64) for name, value in sums.items()}
        while self._open and self._open[-1][0] == height:
            total = added(self._open.pop()[1], total)
            height += 1
        self._open.append((height, total))

    def total(self) -> Sums:
        """What all of them make; nothing of none."""
        if not self._open:
            return {}
        *others, (_, total) = self._open
        for _, sums in reversed(others):
            total = added(sums, total)
        return total


def added(one: Sums, other: Sums) -> Sums:
    """Sum by sum."""
    return {name: value + other[name] for name, value in one.items()}


class InMemory:
    """Chunks that this process works on one after the other; the sequence of them may read each from a file."""

    in_this_process = True

    def __init__(self, chunks: Iterable[Chunk], remembered: Sequence[Any] | None = None) -> None:
        self.chunks: Sequence[Chunk] = chunks if isinstance(chunks, Sequence) else list(chunks)
        self.remembered: list[Any] = [None] * len(self.chunks) if remembered is None else list(remembered)

    def sweep(self, step: Step, shared: Any, each: Sequence[Any] | None = None) -> Sums:
        """Run ``step`` on every chunk; sums are kept in double precision whatever the chunks are in."""
        tree = TreeSum()
        for number, chunk in enumerate(self.chunks):
            told = shared if each is None else Told(shared, each[number])
            sums, self.remembered[number] = step(chunk, self.remembered[number], told)
            tree.add(sums)
        return tree.total()

    def through(self, view: View) -> "InMemory":
        """The same chunks, each seen through a function, with a memory of their own."""
        return InMemory(Seen(self.chunks, view))

    def made(self, make: Make, shared: Any, extent: Extent) -> "InMemory":
        """A list of what is made of every chunk."""
        return InMemory(make(shared, chunk) for chunk in self.chunks)

    def recalled(self, question: Callable[[Any], Any]) -> list[Any]:
        """What a function says of the memory of every chunk."""
        return [question(memory) for memory in self.remembered]

    def for_others(self) -> list[Any]:
        """What is remembered."""
        return self.remembered

    def stop_recording(self) -> None:
        """Nothing is recorded."""


class Seen(Sequence[Chunk]):
    """Chunks seen through a function, which is asked whenever one is looked at."""

    def __init__(self, chunks: Sequence[Chunk], view: View) -> None:
        self._chunks, self._view = chunks, view

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, number: Any) -> Any:
        return self._view(self._chunks[number])


@dataclass(frozen=True)
class OfColumn:
    """A chunk as one label column sees it."""

    column: int

    def __call__(self, chunk: Chunk) -> Chunk:
        """What the bags state about this column alone."""
        return chunk._replace(evidence=chunk.evidence.of_column(self.column))


@dataclass(frozen=True)
class PiecesOfColumn:
    """The same, with negative bags in the pieces that the evidence says they may be cut into (13.5)."""

    column: int

    def __call__(self, chunk: Chunk) -> Chunk:
        """Every piece as if it were a bag."""
        seen = OfColumn(self.column)(chunk)
        pieces = None if seen.evidence.pieces is None else seen.evidence.pieces[0]
        if pieces is None:
            return seen
        segments = Segments(pieces.offsets, len(seen.design.phi))
        return seen._replace(design=seen.design._replace(segments=segments), evidence=seen.evidence.of_pieces(pieces))


def chunks_as_made(features: Features, bags: Bags, model: BagModel, *, integrated: bool = False) -> Iterator[Chunk]:
    """The chunks of some bags and what they say, one after the other.

    ``integrated``: f is integrated out beforehand, m | v ~ N(φᵀv, s²) with s² = 1 + κ; then φ/s takes the place of φ
    and nothing is left over (theory section 1.4).
    """
    for part, design in features.designs(bags):
        evidence = model.chunk(part, features.dtype, features.device)
        yield Chunk(integrated_out(design) if integrated else design, evidence, int(model.offsets[part.start]))


def in_memory(features: Features, bags: Bags, model: BagModel, *, integrated: bool = False) -> InMemory:
    """The chunks of some bags, all in memory, features computed once."""
    return InMemory(chunks_as_made(features, bags, model, integrated=integrated))


def integrated_out(design: Design) -> Design:
    """φ/s for φ, with nothing left over; the old φ is overwritten."""
    scale = torch.sqrt(1.0 + design.kappa)
    return Design(design.phi.div_(scale[:, None]), torch.zeros_like(design.kappa), design.segments)
