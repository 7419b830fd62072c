"""Chunks on the workers of a ``distributed.Client``: plain futures, nothing pinned, nothing scattered.

Some chunks make a shard, a power of two of them, so that the tree of sums (``TreeSum``) is that of one process. The
features of a shard are a future, what it remembers another, chained from sweep to sweep. If a worker dies, its shards
are computed again by others, from the files and from the last state that was written down. Every few sweeps states are
written down (to the checkpoint folder, or fetched), so that the chain stays short.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features, chunk_slices
from bagwise.inference.chunks import BagModel, Chunk, Step, Sums, TreeSum, View, integrated_out
from bagwise.inference.places import ThisProcess, step_threads
from bagwise.scale.fingerprint import fingerprint
from bagwise.scale.journal import SweepJournal, read_state, remove_if_empty, write_state
from bagwise.scale.settings import placed

EVERY = 10  # sweeps between two states that are written down
_FAN_IN = 8  # sums that one task adds: a power of two, so that they make a subtree
_ALLOWED_FAILURES = 100  # workers that may die under one task before it is given up
_PATIENCE = 20  # seconds until a scheduler must have answered
_ALIGNED = 64  # bytes: how a product rounds depends on where its factors begin


@contextmanager
def on(
    client: Any, *, threads: int = 1, chunks_per_task: int = 1, checkpoint: Any = None, memory: Any = None
) -> Iterator[None]:
    """Every ``fit`` inside of the ``with`` block is worked on by the workers of a ``distributed.Client``.

    Parameters
    ----------
    client : distributed.Client
        Of a LocalCluster, of SLURM by dask-jobqueue, or any other. Bags that stay in their files (``Bags.open``) are
        read by the workers themselves, so they need the same paths; rows in memory travel to them.
    threads : int
        Number of threads of every step. One process with the same number gives the same model to the last bit.
    chunks_per_task : int
        How many chunks (of some 30,000 rows) make one task: a power of two. Increase it where tasks take much less
        than a second.
    checkpoint : str, path or None
        Folder that the client and all workers can see, for what is needed to go on: another client that starts the
        same fit on the same bags continues from there, to the same model. It is emptied at the end. None keeps
        nothing; dead workers are made up for all the same.
    memory : int, str or None
        Bytes that the client holds while the kernel is learned, which is its own work; see ``within``.
    """
    shards = check.check_count("chunks_per_task", chunks_per_task)
    if shards & (shards - 1):
        raise BagDataError(f"chunks_per_task={chunks_per_task}: expected a power of two, such as 1, 2, 4 or 8.")
    _check_workers(client)
    local = ThisProcess(check.check_bytes("memory", memory), None, check.check_count("threads", threads))
    folder = None if checkpoint is None else Path(checkpoint)
    place = Cluster(client, local, shards, folder)
    with placed(place):
        yield
    place.finish()


@contextmanager
def on_address(address: str, **settings: Any) -> Iterator[None]:
    """The same for the cluster whose scheduler is at an address such as ``"tcp://10.0.0.1:8786"``."""
    try:
        from distributed import Client
    except ImportError as error:
        raise BagDataError("a cluster needs the package distributed: pip install 'bagwise[dask]'.") from error
    try:
        client = Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise BagDataError(
            f"no scheduler answers at {address!r} ({error}); start one with `dask scheduler` and give the address "
            "that it prints."
        ) from error
    with client, on(client, **settings):
        yield


def _check_workers(client: Any) -> None:
    own = own_version()
    try:
        versions = client.run(version, "bagwise")
    except ModuleNotFoundError as error:
        raise BagDataError("a worker has no bagwise; install the same version everywhere.") from error
    strange = {worker: found for worker, found in versions.items() if found != own}
    if strange:
        worker, found = next(iter(strange.items()))
        raise BagDataError(
            f"worker {worker} has bagwise {found}, this process has {own} ({len(strange)} workers differ); install the "
            "same version everywhere."
        )
    client.run_on_scheduler(_allow_failures)


def own_version() -> str:
    """The version of bagwise in this process."""
    return version("bagwise")


def _allow_failures(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = max(dask_scheduler.allowed_failures, _ALLOWED_FAILURES)


class Cluster:
    """A place for chunks: the workers of a client."""

    def __init__(self, client: Any, local: ThisProcess, chunks_per_task: int, folder: Path | None) -> None:
        self.client, self.local, self._size, self._folder = client, local, chunks_per_task, folder
        self._journals: list[SweepJournal] = []
        self._numbers = itertools.count()

    def chunks(
        self, features: Features, bags: Bags, model: BagModel, integrated: bool, remembered: Sequence[Any] | None
    ) -> "ClusterChunks":
        """Features are computed by the workers, once."""
        parts = [
            _ChunkParts(bags[part], model.chunk(part, features.dtype, features.device), int(model.offsets[part.start]))
            for part in chunk_slices(bags)
        ]
        groups = _by(self._size, parts)
        stated = [part.evidence for part in parts]
        seen = (features.tensors(), features.bias, integrated, bags.offsets, stated)
        identity = fingerprint(own_version(), self.threads, *seen)
        shards = Shards(lambda: self._submitted(features, groups, integrated), len(groups))
        return ClusterChunks(self, shards, remembered, identity, None)

    def _submitted(self, features: Features, groups: Sequence[Any], integrated: bool) -> list[Any]:
        everyone = self.client.submit(_same, features, pure=False)
        return [self.client.submit(_made, everyone, group, integrated, self.threads, pure=False) for group in groups]

    @property
    def threads(self) -> int | None:
        """Of every step."""
        return self.local.threads

    def memory_bytes(self) -> int:
        """Of the client."""
        return self.local.memory_bytes()

    def hold(self, items: Iterable[Any], n_bytes: int) -> Sequence[Any]:
        """In the client's process."""
        return self.local.hold(items, n_bytes)

    def journal(self, identity: str, n_shards: int) -> SweepJournal | None:
        """For the next set of chunks; the same fit asks for the same ones in the same order."""
        if self._folder is None:
            return None
        made = SweepJournal(self._folder / f"{next(self._numbers):04d}-{identity}", n_shards)
        self._journals.append(made)
        return made

    def finish(self) -> None:
        """Leave no checkpoint of a fit that is done."""
        for journal in self._journals:
            journal.remove()
        if self._folder is not None:
            remove_if_empty(self._folder)


class Shards:
    """The chunks that each task works on, as futures that are made when they are first needed."""

    def __init__(self, make: Callable[[], list[Any]], count: int) -> None:
        self._make, self._count = make, count

    def __len__(self) -> int:
        return self._count

    @cached_property
    def futures(self) -> list[Any]:
        """One for every shard."""
        return self._make()


class ClusterChunks:
    """Chunks on the workers; ``remembered`` are futures, paths of states, or None."""

    def __init__(
        self,
        cluster: Cluster,
        shards: Shards,
        remembered: Sequence[Any] | None,
        identity: str,
        view: View | None,
    ) -> None:
        self._cluster, self._shards, self._identity, self._view = cluster, shards, identity, view
        self.remembered: list[Any] = [None] * len(self._shards) if remembered is None else list(remembered)
        self._journal = cluster.journal(identity, len(self._shards))
        self._sweeps = 0

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run ``step`` on every chunk; what the journal knows already is not computed again."""
        self._sweeps += 1
        question = "" if self._journal is None else fingerprint(step, shared)
        written = None if self._journal is None else self._journal.sums(self._sweeps, question)
        if self._journal is not None and written is not None:
            self._recall(self._journal, step, shared)
            return written
        total = self._made_now(step, shared)
        if self._journal is not None:
            self._journal.write_sums(self._sweeps, question, total)
        if self._sweeps % EVERY == 0:  # after the sums: a journal never holds states of sweeps that it does not know
            self._write_down()
        return total

    def through(self, view: View) -> "ClusterChunks":
        """The same chunks, each seen through a function, with a memory of their own."""
        return ClusterChunks(self._cluster, self._shards, None, self._identity, view)

    def _made_now(self, step: Step, shared: Any) -> Sums:
        self._submit(step, shared)
        total: Sums = self._reduced().result()
        return {name: value.clone() for name, value in total.items()}

    def _submit(self, step: Step, shared: Any) -> None:
        """Let all shards answer; what they remember afterwards is in their answers."""
        client, threads = self._cluster.client, self._cluster.threads
        everyone = client.submit(_same, shared, pure=False)  # one copy, which workers hand to each other
        self.remembered = [
            client.submit(_run, step, self._view, shard, before, everyone, threads, pure=False)
            for shard, before in zip(self._shards.futures, self.remembered, strict=True)
        ]

    def _reduced(self) -> Any:
        """The sums of all shards, added on the workers, some at a time."""
        submit = self._cluster.client.submit
        sums = [submit(_first_added, some, pure=False) for some in _by(_FAN_IN, self.remembered)]
        while len(sums) > 1:
            sums = [submit(_added, some, pure=False) for some in _by(_FAN_IN, sums)]
        return sums[0]

    def _recall(self, journal: SweepJournal, step: Step, shared: Any) -> None:
        """States of a sweep that was made by an earlier client: not needed, read, or made again."""
        if self._sweeps == journal.last_state:
            numbers = range(len(self._shards))
            self.remembered = [SavedState(journal.state_path(self._sweeps, number)) for number in numbers]
        elif self._sweeps > journal.last_state:
            self._submit(step, shared)

    def _write_down(self) -> None:
        """Cut the chain of futures: states go to the checkpoint folder, or are fetched and sent along."""
        client, journal = self._cluster.client, self._journal
        if journal is None:
            self.remembered = [client.submit(_same, state, pure=False) for state in client.gather(self.remembered)]
            return
        paths = [journal.state_path(self._sweeps, number) for number in range(len(self._shards))]
        written = [
            client.submit(_write, path, after, pure=False) for path, after in zip(paths, self.remembered, strict=True)
        ]
        client.gather(written)
        self.remembered = [SavedState(path) for path in paths]
        journal.forget_states_before(self._sweeps)


def _by(few: int, items: Sequence[Any]) -> list[Sequence[Any]]:
    """Runs of so many, the last perhaps shorter."""
    return [items[start : start + few] for start in range(0, len(items), few)]


# ---------------------------------------------------------------- on the workers


class _ChunkParts(NamedTuple):
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


def _same(value: Any) -> Any:
    return value


def _made(features: Features, parts: Sequence[_ChunkParts], integrated: bool, threads: int | None) -> list[Chunk]:
    with step_threads(threads):
        designs = (features.design(part.bags) for part in parts)
        return [
            Chunk(integrated_out(design) if integrated else design, part.evidence, part.first)
            for design, part in zip(designs, parts, strict=True)
        ]


def _run(step: Step, view: View | None, chunks: list[Chunk], before: Any, shared: Any, threads: int | None) -> After:
    states = read_state(before.path) if isinstance(before, SavedState) else before.states if before else None
    tree, after = TreeSum(), []
    everyone = _well_placed(shared)
    with step_threads(threads):
        for number, chunk in enumerate(map(_well_placed, chunks)):
            state = None if states is None else _well_placed(states[number])
            sums, new = step(chunk if view is None else view(chunk), state, everyone)
            tree.add(sums)
            after.append(new)
    return After(tree.total(), after)


def _first_added(answers: Sequence[After]) -> Sums:
    return _added([answer.sums for answer in answers])


def _added(parts: Sequence[Sums]) -> Sums:
    tree = TreeSum()
    for sums in parts:
        tree.add(sums)
    return tree.total()


def _write(path: str, after: After) -> str:
    return write_state(path, after.states)


def _well_placed(value: Any) -> Any:
    """The same with tensors that begin where torch would let them begin, which they may not after a journey."""
    if isinstance(value, Tensor):
        return value.clone() if value.data_ptr() % _ALIGNED else value
    return type(value)(*map(_well_placed, value)) if hasattr(value, "_fields") else value
