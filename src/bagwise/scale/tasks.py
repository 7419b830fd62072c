"""What the workers of a cluster do: tasks on shards, each of which is the chunks that one task works on."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features
from bagwise.gp.moments import Course, passed
from bagwise.inference.chunks import Chunk, Make, Step, Sums, Told, TreeSum, View, integrated_out
from bagwise.inference.places import step_threads
from bagwise.scale.journal import read_state, write_state
from bagwise.sources.rows import StoredRows

_ALIGNED = 64  # bytes: how a product rounds depends on where its factors begin


class Manner(NamedTuple):
    """How every task is worked on: by how many threads, and by which version of bagwise."""

    threads: int | None
    version: str

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While a task is worked on; a worker of another version, which joined later than the fit began, is refused."""
        if self.version != own_version():
            raise BagDataError(
                f"a worker has bagwise {own_version()}, the client has {self.version}; install the same version "
                "everywhere."
            )
        with step_threads(self.threads):
            yield


@functools.cache
def own_version() -> str:
    """The version of bagwise in this process."""
    return version("bagwise")


class ChunkParts(NamedTuple):
    """What a chunk is made of."""

    bags: Bags
    evidence: Any
    first: int


class SavedState(NamedTuple):
    """A state in a file."""

    path: str


class After(NamedTuple):
    """What a step leaves behind on a shard: the sums of its chunks, and what each remembers."""

    sums: Sums
    states: list[Any]


class SeenRows(NamedTuple):
    """What a worker has seen of some rows: their moments, and those that were to be put aside, by name."""

    course: Course
    kept: dict[str, NDArray[Any]]


def rows_seen(rows: StoredRows, wanted: dict[str, NDArray[np.int64]], manner: Manner) -> SeenRows:
    """Read some rows once; ``wanted`` are the numbers of those that are put aside."""
    with manner.kept():
        for name, numbers in wanted.items():
            rows.keep(name, numbers, for_passes=False)
        course = passed(rows)
        return SeenRows(course, {name: rows[numbers] for name, numbers in wanted.items()})


def passed_on(value: Any) -> Any:
    """A value as a future, so that workers hand it to each other."""
    return value


def chunk_of_parts(shared: tuple[Features, bool], parts: ChunkParts) -> Chunk:
    """A chunk, features computed; with the flag f is integrated out."""
    features, integrated = shared
    design = features.design(parts.bags)
    return Chunk(integrated_out(design) if integrated else design, parts.evidence, parts.first)


def made_of_shard(make: Make, shared: Any, sources: Sequence[Any], manner: Manner) -> list[Any]:
    """What is made of every chunk of a shard, or of where it comes from."""
    with manner.kept():
        return [make(shared, _well_placed(source)) for source in sources]


def run_on_shard(
    step: Step,
    view: View | None,
    chunks: list[Chunk],
    before: Any,
    shared: Any,
    each: Sequence[Any] | None,
    manner: Manner,
) -> After:
    """A step on every chunk of a shard."""
    states = _states(before)
    tree, after = TreeSum(), []
    everyone = _well_placed(shared)
    with manner.kept():
        for number, chunk in enumerate(map(_well_placed, chunks)):
            state = None if states is None else _well_placed(states[number])
            told = everyone if each is None else Told(everyone, _well_placed(each[number]))
            sums, new = step(chunk if view is None else view(chunk), state, told)
            tree.add(sums)
            after.append(new)
    return After(tree.total(), after)


def _states(before: Any) -> list[Any] | None:
    """What the chunks of a shard remember, by a file or by an earlier answer."""
    if isinstance(before, SavedState):
        return read_state(before.path)
    return None if before is None else list(before.states)


def recalled_of_shard(question: Callable[[Any], Any], before: Any) -> list[Any]:
    """What a function says of the memory of every chunk."""
    return [question(_well_placed(state)) for state in _states(before) or []]


def sums_of(after: After) -> Sums:
    """The sums alone: they travel to where they are added, and what is remembered stays where it is."""
    return after.sums


def sums_added(parts: Sequence[Sums]) -> Sums:
    """Some sums, in the tree."""
    tree = TreeSum()
    for sums in parts:
        tree.add(sums)
    return tree.total()


def write_after(path: str, after: After) -> str:
    """What the chunks of a shard remember, in a file."""
    return write_state(path, after.states)


def _well_placed(value: Any) -> Any:
    """The same with tensors that begin where torch would let them begin, which they may not after a journey."""
    if isinstance(value, Tensor):
        return value.clone() if value.data_ptr() % _ALIGNED else value
    if hasattr(value, "_fields"):
        return type(value)(*map(_well_placed, value))
    return type(value)(map(_well_placed, value)) if isinstance(value, tuple | list) else value
