"""Chunks on the workers of a ``distributed.Client``: plain futures, nothing pinned, nothing scattered.

Some chunks make a shard, a power of two of them, so that the tree of sums (``TreeSum``) is that of one process. The
features of a shard are a future, what it remembers another, chained from sweep to sweep. If a worker dies, its shards
are computed again by others, from the files and from the last state that was written down. Every few sweeps states are
written down (to the checkpoint folder, or fetched), so that the chain stays short.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features, chunk_slices
from bagwise.gp.moments import FIRST_PASS, WINDOW, Course, joined_courses, passed
from bagwise.inference.chunks import CPU, BagModel, Extent, HeldChunks, Make, Step, Sums, View
from bagwise.inference.places import ThisProcess
from bagwise.scale.fingerprint import fingerprint
from bagwise.scale.journal import SweepJournal, remove_if_empty
from bagwise.scale.settings import placed
from bagwise.scale.tasks import (
    ChunkParts,
    Manner,
    SavedState,
    SeenRows,
    chunk_of_parts,
    made_of_shard,
    own_version,
    passed_on,
    recalled_of_shard,
    rows_seen,
    run_on_shard,
    sums_added,
    sums_of,
    write_after,
)
from bagwise.sources.rows import StoredRows

EVERY = 10  # sweeps between two states that are written down
FEW_ROWS = 32_768  # that are worked on in this process: a pass over them takes less time than a task
_SMALLER = 4  # times: chunks of learning hold so many times fewer rows, and a task so many times more of them
_FAN_IN = 8  # sums that one task adds: a power of two, so that they make a subtree
_ALLOWED_FAILURES = 100  # workers that may die under one task before it is given up
_PATIENCE = 20  # seconds until a scheduler must have answered


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
        How many chunks (of some 30,000 rows, or a 64th part of very many) make one task: a power of two. Increase it
        where tasks take much less than a second.
    checkpoint : str, path or None
        Folder that the client and all workers can see, for what is needed to go on: another client that starts the
        same fit on the same bags continues from there, to the same model. It is emptied at the end. None keeps
        nothing; dead workers are made up for all the same.
    memory : int, str or None
        Bytes that the client holds where it learns a kernel itself, from few rows for example; see ``within``.
    """
    shards = check.check_count("chunks_per_task", chunks_per_task)
    if shards & (shards - 1):
        raise BagDataError(f"chunks_per_task={chunks_per_task}: expected a power of two, such as 1, 2, 4 or 8.")
    _check_workers(client)
    local = ThisProcess(check.check_bytes("memory", memory), None, check.check_count("threads", threads))
    folder = None if checkpoint is None else Path(checkpoint)
    place = Cluster(client, local, shards, folder)
    token = FIRST_PASS.set(place.first_pass)
    try:
        with placed(place):
            yield
    finally:
        FIRST_PASS.reset(token)
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
            ChunkParts(bags[part], model.chunk(part, features.dtype, features.device), int(model.offsets[part.start]))
            for part in chunk_slices(bags, features.n_columns)
        ]
        groups = _by(self._size, parts)
        stated = [part.evidence for part in parts]
        seen = (features.tensors(), features.bias, integrated, bags.offsets, stated)
        identity = fingerprint(own_version(), self.threads, *seen)
        shards = Shards(lambda: self._spread(groups, chunk_of_parts, (features, integrated)), len(groups), self._size)
        return ClusterChunks(self, shards, remembered, identity)

    def made(self, sources: Iterable[Any], make: Make, shared: Any, extent: Extent) -> HeldChunks:
        """Made by the workers, once; of few rows by this process, which takes less time than tasks do."""
        if self.works_here(extent.n_rows):
            return self.local.made(sources, make, shared, extent)
        size = self._size * _SMALLER
        groups = _by(size, list(sources))
        shards = Shards(lambda: self._spread(groups, make, shared), len(groups), size)
        return ClusterChunks(self, shards, None, None)

    def made_of(self, shards: "Shards", make: Make, shared: Any) -> "ClusterChunks":
        """Other chunks of the same bags."""
        made = Shards(lambda: self._all_made(shards.futures, make, shared), len(shards), shards.size)
        return ClusterChunks(self, made, None, None)

    def _all_made(self, groups: Sequence[Any], make: Make, shared: Any, *, copies: int = 1) -> list[Any]:
        """One future for every group.

        A task goes where something that it needs is. Groups that need nothing else are spread evenly over the workers
        by as many copies of what is shared as there are workers.
        """
        submit = self.client.submit
        everyone = [submit(passed_on, shared, pure=False) for _ in range(copies)]
        pairs = zip(itertools.cycle(everyone), groups, strict=False)
        return [submit(made_of_shard, make, copy, group, self.manner, pure=False) for copy, group in pairs]

    def _spread(self, groups: Sequence[Any], make: Make, shared: Any) -> list[Any]:
        return self._all_made(groups, make, shared, copies=max(1, len(self.client.nthreads())))

    def works_here(self, n_rows: int) -> bool:
        """Only where there are few rows."""
        return n_rows <= FEW_ROWS

    def first_pass(self, X: StoredRows) -> Course:
        """Moments of rows in a file, found by the workers; rows that are to be put aside come with them."""
        if self.works_here(len(X)):
            return passed(X)
        windows = [(start, min(start + WINDOW, len(X))) for start in range(0, len(X), WINDOW)]
        wanted = [X.announced(*window) for window in windows]
        tasks = [
            self.client.submit(rows_seen, X[slice(*window)], some, self.manner, pure=False)
            for window, some in zip(windows, wanted, strict=True)
        ]
        seen: list[SeenRows] = self.client.gather(tasks)
        for (start, _), some, found in zip(windows, wanted, seen, strict=True):
            for name, rows in found.kept.items():
                X.hand_in(name, start + some[name], rows)
        return reduce(joined_courses, (found.course for found in seen))

    @property
    def threads(self) -> int | None:
        """Of every step."""
        return self.local.threads

    @property
    def manner(self) -> Manner:
        """Of every task."""
        return Manner(self.threads, own_version())

    def memory_bytes(self, device: torch.device = CPU) -> int:
        """Of the client."""
        return self.local.memory_bytes(device)

    def hold(self, items: Iterable[Any], extent: Extent) -> Sequence[Any]:
        """In the client's process."""
        return self.local.hold(items, extent)

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

    def __init__(self, make: Callable[[], list[Any]], count: int, size: int) -> None:
        self._make, self._count, self.size = make, count, size

    def __len__(self) -> int:
        return self._count

    @cached_property
    def futures(self) -> list[Any]:
        """One for every shard."""
        return self._make()


class ClusterChunks:
    """Chunks on the workers; ``remembered`` are futures, paths of states, or None.

    Chunks without an ``identity`` have no journal: they are made again by whoever goes on.
    """

    in_this_process = False

    def __init__(
        self,
        cluster: Cluster,
        shards: Shards,
        remembered: Sequence[Any] | None,
        identity: str | None,
        view: View | None = None,
    ) -> None:
        self._cluster, self._shards, self._identity, self._view = cluster, shards, identity, view
        self.remembered: list[Any] = [None] * len(self._shards) if remembered is None else list(remembered)
        self._journal = None if identity is None else cluster.journal(identity, len(self._shards))
        self._sweeps = 0

    def sweep(self, step: Step, shared: Any, each: Sequence[Any] | None = None) -> Sums:
        """Run ``step`` on every chunk; what the journal knows already is not computed again."""
        self._sweeps += 1
        question = "" if self._journal is None else fingerprint(step, shared, each)
        written = None if self._journal is None else self._journal.sums(self._sweeps, question)
        if self._journal is not None and written is not None:
            self._recall(self._journal, step, shared, each)
            return written
        total = self._made_now(step, shared, each)
        if self._journal is not None:
            self._journal.write_sums(self._sweeps, question, total)
        if self._sweeps % EVERY == 0:  # after the sums: a journal never holds states of sweeps that it does not know
            self._write_down()
        return total

    def through(self, view: View) -> "ClusterChunks":
        """The same chunks, each seen through a function, with a memory of their own."""
        return ClusterChunks(self._cluster, self._shards, None, self._identity, view)

    def made(self, make: Make, shared: Any, extent: Extent) -> "ClusterChunks":
        """Made by the workers, once, of what they hold."""
        return self._cluster.made_of(self._shards, make, shared)

    def recalled(self, question: Callable[[Any], Any]) -> list[Any]:
        """Asked on the workers."""
        client = self._cluster.client
        answers = [client.submit(recalled_of_shard, question, before, pure=False) for before in self.remembered]
        return [answer for some in client.gather(answers) for answer in some]

    def for_others(self) -> list[Any]:
        """States that depend on no other future."""
        self._write_down()
        return self.remembered

    def stop_recording(self) -> None:
        """The journal stays as it is."""
        self._journal = None

    def _made_now(self, step: Step, shared: Any, each: Sequence[Any] | None) -> Sums:
        self._submit(step, shared, each)
        total: Sums = self._reduced().result()
        return {name: value.clone() for name, value in total.items()}

    def _submit(self, step: Step, shared: Any, each: Sequence[Any] | None) -> None:
        """Let all shards answer; what they remember afterwards is in their answers."""
        client, manner, n = self._cluster.client, self._cluster.manner, len(self._shards)
        everyone = client.submit(passed_on, shared, pure=False)  # one copy, which workers hand to each other
        own = [None] * n if each is None else _by(self._shards.size, each)
        tasks = zip(self._shards.futures, self.remembered, own, strict=True)
        self.remembered = [
            client.submit(run_on_shard, step, self._view, shard, before, everyone, some, manner, pure=False)
            for shard, before, some in tasks
        ]

    def _reduced(self) -> Any:
        """The sums of all shards, added on the workers, some at a time."""
        submit = self._cluster.client.submit
        sums = [submit(sums_of, after, pure=False) for after in self.remembered]
        while len(sums) > 1:
            sums = [submit(sums_added, some, pure=False) for some in _by(_FAN_IN, sums)]
        return sums[0]

    def _recall(self, journal: SweepJournal, step: Step, shared: Any, each: Sequence[Any] | None) -> None:
        """States of a sweep that was made by an earlier client: not needed, read, or made again."""
        if self._sweeps == journal.last_state:
            numbers = range(len(self._shards))
            self.remembered = [SavedState(journal.state_path(self._sweeps, number)) for number in numbers]
        elif self._sweeps > journal.last_state:
            self._submit(step, shared, each)

    def _write_down(self) -> None:
        """Cut the chain of futures: states go to the checkpoint folder, or are fetched and sent along."""
        client, journal = self._cluster.client, self._journal
        if journal is None:
            self.remembered = [client.submit(passed_on, state, pure=False) for state in client.gather(self.remembered)]
            return
        paths = [journal.state_path(self._sweeps, number) for number in range(len(self._shards))]
        written = [
            client.submit(write_after, path, after, pure=False)
            for path, after in zip(paths, self.remembered, strict=True)
        ]
        client.gather(written)
        self.remembered = [SavedState(path) for path in paths]
        journal.forget_states_before(self._sweeps)


def _by(few: int, items: Sequence[Any]) -> list[Sequence[Any]]:
    """Runs of so many, the last perhaps shorter."""
    return [items[start : start + few] for start in range(0, len(items), few)]
