"""Chunks of whole bags, and who adds up what they say.

Every iteration of every model has the shape

    step(chunk, remembered, shared) -> (sums, remembered)

a chunk of whole bags, what the model remembers about its instances between iterations (stays with the chunk), what
everyone knows (small), and sums that are added over chunks. An inference only ever calls ``sweep``; where the chunks
live (memory, a file, a GPU, other machines) is the business of whoever implements it.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from bagwise.bags import Bags
from bagwise.features import Design, Features

Sums = dict[str, Tensor]


class Chunk(NamedTuple):
    """Whole bags, ready for arithmetic: their design and what is known about them."""

    design: Design
    evidence: Tensor


Step = Callable[[Chunk, Any, Any], tuple[Sums, Any]]


class Chunks(Protocol):
    """Anything that can show its chunks to a step and add up the answers."""

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run ``step`` on every chunk, keep what each remembers, return the sums."""


class InMemory:
    """Chunks in this process's memory, in order."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = list(chunks)
        self._remembered: list[Any] = [None] * len(self._chunks)

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run ``step`` on every chunk; sums are kept in double precision whatever the chunks are in."""
        total: Sums = {}
        for number, chunk in enumerate(self._chunks):
            sums, self._remembered[number] = step(chunk, self._remembered[number], shared)
            for name, value in sums.items():
                total[name] = total[name] + value if name in total else value.to(torch.float64)
        return total


def in_memory(features: Features, bags: Bags, evidence: Tensor) -> InMemory:
    """The chunks of some bags with evidence (B, …), features computed once."""
    return InMemory(Chunk(design, evidence[part]) for part, design in features.designs(bags))
