"""Where chunks live: in memory while they fit, else in a file without a name; or where ``bagwise.scale`` puts them.

The place decides nothing but speed and memory: chunks begin at the same bags and sums are added in the same tree
everywhere.
"""

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from bagwise._files import PathLike
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features
from bagwise.inference.chunks import (
    CPU,
    BagModel,
    Chunk,
    Extent,
    HeldChunks,
    InMemory,
    Make,
    Step,
    Sums,
    View,
    chunks_as_made,
)
from bagwise.numerics.segments import Segments

_PAGE = 4096  # where tensors begin in a file: as well aligned as those that torch allocates
_SHARE = 4  # of the memory of the machine features may take one part in so many, unless the user says otherwise …
_DEVICE_SHARE = 2  # … and of what is free on a GPU, where nothing but a fit needs room
_UNKNOWN_MEMORY = 2**34  # bytes, where the system does not tell


class ChunkPlace(Protocol):
    """Somewhere to hold chunks."""

    @property
    def threads(self) -> int | None:
        """Of every step; None for as many as torch uses."""

    def chunks(
        self, features: Features, bags: Bags, model: BagModel, integrated: bool, remembered: Sequence[Any] | None
    ) -> HeldChunks:
        """The chunks of some bags, features computed once."""

    def made(self, sources: Iterable[Any], make: Make, shared: Any, extent: Extent) -> HeldChunks:
        """Chunks made of what they come from (bags, for example, that stay in their files), once."""

    def memory_bytes(self, device: torch.device = CPU) -> int:
        """How many bytes of rows or features to hold in the memory of a device."""

    def works_here(self, n_rows: int) -> bool:
        """Whether so many rows are worked on, and so read, by this process."""

    def hold(self, items: Iterable[Any], extent: Extent) -> Sequence[Any]:
        """Chunks (or other named tuples of tensors) of this process that take so much, where there is room."""


@dataclass(frozen=True)
class ThisProcess:
    """Chunks are worked on by this process."""

    memory: int | None = None  # bytes of features to hold in memory; None for a share of what the device has
    folder: PathLike | None = None  # where features go that do not fit; None for the usual temporary folder
    threads: int | None = None  # of every step; None for as many as torch uses

    def chunks(
        self, features: Features, bags: Bags, model: BagModel, integrated: bool, remembered: Sequence[Any] | None
    ) -> HeldChunks:
        """In memory if they fit."""
        with step_threads(self.threads):
            made = chunks_as_made(features, bags, model, integrated=integrated)
            held = self.hold(made, Extent(bags.n_instances, feature_bytes(features, bags), features.device))
        return _WithThreads(held, remembered, self)

    def made(self, sources: Iterable[Any], make: Make, shared: Any, extent: Extent) -> HeldChunks:
        """In memory if they fit."""
        with step_threads(self.threads):
            held = self.hold((make(shared, source) for source in sources), extent)
        return _WithThreads(held, None, self)

    def hold(self, items: Iterable[Any], extent: Extent) -> Sequence[Any]:
        """A list, or a file."""
        return list(items) if extent.n_bytes <= self.memory_bytes(extent.device) else Spilled(items, self.folder)

    def works_here(self, n_rows: int) -> bool:
        """However many."""
        return True

    def memory_bytes(self, device: torch.device = CPU) -> int:
        """As many as the user allows, or a quarter of the machine's; of a GPU half of what is free there."""
        if self.memory is not None:
            return self.memory
        return device_memory(device) // _DEVICE_SHARE if device.type == "cuda" else machine_memory() // _SHARE


class _WithThreads(InMemory):
    """Chunks whose steps all use the same number of threads: how a product rounds depends on it."""

    def __init__(self, chunks: Sequence[Chunk], remembered: Sequence[Any] | None, place: ThisProcess) -> None:
        super().__init__(chunks, remembered)
        self._place = place

    def sweep(self, step: Step, shared: Any, each: Sequence[Any] | None = None) -> Sums:
        """Run ``step`` on every chunk."""
        with step_threads(self._place.threads):
            return super().sweep(step, shared, each)

    def through(self, view: View) -> "_WithThreads":
        """The same chunks, each seen through a function, with a memory of their own."""
        return _WithThreads(super().through(view).chunks, None, self._place)

    def made(self, make: Make, shared: Any, extent: Extent) -> HeldChunks:  # type: ignore[override]
        """Where there is room for them."""
        return self._place.made(self.chunks, make, shared, extent)


_HERE = ThisProcess()  # frozen, so that everyone may share it
PLACE: ContextVar[ChunkPlace] = ContextVar("place", default=_HERE)


def chunks_of(
    features: Features,
    bags: Bags,
    model: BagModel,
    *,
    integrated: bool = False,
    remembered: Sequence[Any] | None = None,
) -> HeldChunks:
    """The chunks of some bags and what they say, where the user wants them to be (``bagwise.scale``)."""
    return PLACE.get().chunks(features, bags, model, integrated, remembered)


def feature_bytes(features: Features, bags: Bags) -> int:
    """Bytes that φ and κ of all instances take."""
    return bags.n_instances * (features.n_columns + 1) * features.dtype.itemsize


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN_MEMORY


def device_memory(device: torch.device) -> int:
    """Bytes that are free on a GPU, with those that torch has given up and keeps for later."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


def threads_of_steps() -> int:
    """How many threads every step uses now."""
    return PLACE.get().threads or torch.get_num_threads()


@contextmanager
def step_threads(threads: int | None) -> Iterator[None]:
    """So many threads for torch meanwhile; None changes nothing."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- files


class Slot(NamedTuple):
    """Where a tensor stands in a file."""

    start: int
    shape: tuple[int, ...]
    dtype: Any  # NumPy's
    device: torch.device


class TensorFile:
    """Tensors in a file that has no name: it is gone with its process, however that ends.

    A tensor is mapped when it is asked for, and its pages are given back with it: memory holds what is worked on.
    """

    def __init__(self, folder: PathLike | None = None) -> None:
        self._folder = tempfile.gettempdir() if folder is None else folder
        self._file: IO[bytes] = self._explained(self._opened)
        weakref.finalize(self, self._file.close)
        self._end = 0

    def put(self, tensor: Tensor) -> Slot:
        """Append a tensor."""
        values = np.ascontiguousarray(tensor.detach().cpu().numpy())
        slot = Slot(self._end, values.shape, values.dtype, tensor.device)
        self._explained(lambda: self._write(values))
        return slot

    def get(self, slot: Slot) -> Tensor:
        """The tensor of a slot; what is done to it does not reach the file."""
        if 0 in slot.shape:
            return torch.from_numpy(np.empty(slot.shape, slot.dtype)).to(slot.device)
        mapped = np.memmap(self._file, slot.dtype, "c", slot.start, slot.shape)
        return torch.from_numpy(np.asarray(mapped)).to(slot.device)

    def _opened(self) -> Any:
        return tempfile.TemporaryFile(dir=self._folder, prefix="bagwise-")

    def _write(self, values: Any) -> None:
        self._file.seek(self._end)
        self._file.write(values.data if values.size else b"")
        self._file.flush()
        self._end = -(-(self._end + values.nbytes) // _PAGE) * _PAGE

    def _explained(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except OSError as error:
            raise BagDataError(
                f"{self._folder}: features that do not fit into memory cannot be written there ({error.strerror}). "
                "Nothing is left behind. Choose a folder with more room, bagwise.scale.within(cache=...), or allow "
                "more memory, bagwise.scale.within(memory=...)."
            ) from error


class _BagOffsets(NamedTuple):
    """Segments without what follows from their offsets."""

    offsets: Tensor


class Spilled(Sequence[Any]):
    """Chunks, or other named tuples, whose tensors lie in a file; what is no tensor stays in memory."""

    def __init__(self, items: Iterable[Any], folder: PathLike | None = None) -> None:
        self._tensors = TensorFile(folder)
        self._items = [self._put(item) for item in items]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: Any) -> Any:
        return self._get(self._items[number])

    def _put(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensors.put(value)
        if isinstance(value, Segments):
            return _BagOffsets(value.offsets)
        return type(value)(*map(self._put, value)) if hasattr(value, "_fields") else value

    def _get(self, value: Any) -> Any:
        if isinstance(value, Slot):
            return self._tensors.get(value)
        if isinstance(value, _BagOffsets):
            return Segments(value.offsets)
        return type(value)(*map(self._get, value)) if hasattr(value, "_fields") else value
