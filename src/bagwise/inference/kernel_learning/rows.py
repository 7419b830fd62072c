"""Rows to learn a kernel from: standardised, in chunks of whole bags, with what their bags say."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.bags import Bags
from bagwise.gp.features import Design, Features, bag_slices, traced_design
from bagwise.inference.chunks import BagModel, Chunk
from bagwise.inference.places import PLACE
from bagwise.numerics.segments import Segments

CHUNK_ROWS = 8192


class _Part(NamedTuple):
    x: Tensor
    segments: Segments
    log_sizes: Tensor
    evidence: Any


class LearningRows:
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
        self._features, self._kernel, self._inducing = features, kernel, inducing
        self._n_rows = bags.n_instances
        parts = (self._part(bags, part, model) for part in bag_slices(bags.offsets, chunk_rows))
        self._parts: Sequence[_Part] = PLACE.get().hold(parts, self._bytes(inducing.shape[1]))

    def _part(self, bags: Bags, part: slice, model: BagModel) -> _Part:
        some, features = bags[part], self._features
        segments = Segments(torch.from_numpy(some.offsets.copy()).to(features.device))
        evidence = model.chunk(part, features.dtype, features.device)
        return _Part(features.standardised(some.X), segments, features.log_sizes(some.sizes), evidence)

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return self._features.n_columns

    @property
    def device(self) -> torch.device:
        """Where they are computed."""
        return self._features.device

    def chunks(self) -> Sequence[Chunk]:
        """Features at the present kernel."""
        with torch.no_grad():
            return PLACE.get().hold(self.traced(), self._bytes(self.n_columns + 1))

    def _bytes(self, width: int) -> int:
        """Bytes of so many numbers per row."""
        return self._n_rows * width * self._features.dtype.itemsize

    def traced(self) -> Iterator[Chunk]:
        """The same, one chunk after the other, as differentiable functions of the kernel and the inducing inputs."""
        for part in self._parts:
            yield Chunk(self._design(part), part.evidence)

    def _design(self, part: _Part) -> Design:
        return traced_design(self._features, self._kernel, self._inducing, part.x, part.segments, part.log_sizes)
