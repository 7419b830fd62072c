"""Chunks of whole bags, and who adds up what they say.

Every iteration of every model has the shape

    step(chunk, remembered, shared) -> (sums, remembered)

a chunk of whole bags, what the model remembers about its instances between iterations (stays with the chunk), what
everyone knows (small), and sums that are added over chunks. An inference only ever calls ``sweep``; where the chunks
live (memory, a file, a GPU, other machines) is the business of whoever implements it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Design, Features

Sums = dict[str, Tensor]


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


class Chunks(Protocol):
    """Anything that can show its chunks to a step and add up the answers."""

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run ``step`` on every chunk, keep what each remembers, return the sums."""


class InMemory:
    """Chunks in this process's memory, in order."""

    def __init__(self, chunks: Iterable[Chunk], remembered: Sequence[Any] | None = None) -> None:
        self.chunks = list(chunks)
        self.remembered: list[Any] = [None] * len(self.chunks) if remembered is None else list(remembered)

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run ``step`` on every chunk; sums are kept in double precision whatever the chunks are in."""
        total: Sums = {}
        for number, chunk in enumerate(self.chunks):
            sums, self.remembered[number] = step(chunk, self.remembered[number], shared)
            for name, value in sums.items():
                total[name] = total[name] + value if name in total else value.to(torch.float64)
        return total


def in_memory(features: Features, bags: Bags, evidence: BagModel, *, integrated: bool = False) -> InMemory:
    """The chunks of some bags and what they say, features computed once.

    ``integrated``: f is integrated out beforehand, m | v ~ N(φᵀv, s²) with s² = 1 + κ; then φ/s takes the place of φ
    and nothing is left over (theory section 1.4).
    """
    return InMemory(
        Chunk(
            _integrated(design) if integrated else design,
            evidence.chunk(part, features.dtype, features.device),
            int(evidence.offsets[part.start]),
        )
        for part, design in features.designs(bags)
    )


def _integrated(design: Design) -> Design:
    scale = torch.sqrt(1.0 + design.kappa)
    return Design(design.phi.div_(scale[:, None]), torch.zeros_like(design.kappa), design.segments)
