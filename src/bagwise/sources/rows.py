"""Rows of a source, read on demand: a stand-in for a matrix that need not fit into memory."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bagwise.exceptions import BagDataError
from bagwise.sources.arrays import JoinedRows
from bagwise.sources.shelf import Shelf, ascending

Ints = NDArray[np.int64]

_BLOCK = 8192  # rows of a source that are read together when single rows of it are asked for
_READING = threading.RLock()  # one thread reads at a time: a source remembers where it stopped, or reads from another


class RowSource(Protocol):
    """Where rows come from: any object with these three names."""

    shape: tuple[int, int]
    dtype: Any

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows from ``start`` to before ``stop``, in the order of bags."""


class Owners(NamedTuple):
    """Which bag a row of a source belongs to, for messages."""

    ids: Sequence[str]
    offsets: Ints

    def within(self, low: int, high: int) -> "Owners":
        """The same for rows from ``low`` to before ``high`` alone."""
        first = int(np.searchsorted(self.offsets, low, side="right")) - 1
        last = int(np.searchsorted(self.offsets, high, side="left"))
        return Owners(self.ids[first:last], self.offsets[first : last + 1])

    def of(self, row: int) -> str:
        """The bag of a row."""
        return self.ids[int(np.searchsorted(self.offsets, row, side="right")) - 1]


class StoredRows:
    """Some runs of the rows of a source, as a matrix: slices stay unread, ``np.asarray`` reads.

    Every row that is read is checked: one that is not finite is an error that names its bag, row and column.
    """

    ndim = 2

    def __init__(
        self,
        source: RowSource,
        owners: Owners,
        names: Sequence[str] | None = None,
        runs: tuple[Ints, Ints] | None = None,
        shelves: Mapping[str, Shelf] | None = None,
    ) -> None:
        starts, sizes = _whole(source) if runs is None else _merged(*runs)
        self._source, self._owners, self._names = source, owners, names
        self._starts, self._places = starts, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.dtype = np.dtype(np.float32 if np.dtype(source.dtype) == np.float32 else np.float64)
        self._shelves = dict(shelves or {})  # rows put aside, by what they are for; selections look there, too
        self.summary: Any = None  # of the columns, remembered for whoever computes it

    def __getstate__(self) -> dict[str, Any]:
        """As it travels to another process: with the names of its own bags alone."""
        ends = self._starts + np.diff(self._places)
        owners = self._owners.within(int(self._starts.min()), int(ends.max())) if len(ends) else self._owners
        return self.__dict__ | {"_owners": owners, "_shelves": {}}

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return int(self._places[-1]), int(self._source.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes that the rows would take in memory."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.read(0, len(self)).astype(self.dtype if dtype is None else dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and key.step in (None, 1):
            return self._window(*key.indices(len(self))[:2])
        rows = np.arange(len(self))[key]
        return self._picked(np.atleast_1d(rows)).reshape(*np.shape(rows), self.shape[1])

    def positions(self, rows: Any = None) -> Ints:
        """Where rows (all of them without an argument) stand in the source."""
        wanted = np.arange(len(self)) if rows is None else np.asarray(rows)
        run = np.searchsorted(self._places, wanted, side="right") - 1
        found: Ints = self._starts[run] + wanted - self._places[run]
        return found

    def keep(self, name: str, rows: Ints | None = None, *, for_passes: bool = True) -> None:
        """Put these rows (all without an argument) aside under a name when they are read next.

        With ``for_passes`` whoever reads them afterwards gets them from there, until they are forgotten.
        """
        positions = ascending(self.positions(rows))
        if name in self._shelves and np.array_equal(self._shelves[name].positions, positions):
            return
        shelf = Shelf(positions, self.shape[1], self.dtype, for_passes=for_passes)
        here = next((found for other in self._shelves.values() if (found := other.at(positions)) is not None), None)
        if here is not None:
            shelf.fill(here)
        self._shelves[name] = shelf

    def keeps(self, name: str) -> bool:
        """Whether rows are put aside under a name."""
        return name in self._shelves

    def put_aside(self, name: str) -> NDArray[Any] | None:
        """The rows of a name, where all of them have come by; they need not be read again."""
        return self._shelves[name].all_rows() if self.keeps(name) else None

    def announced(self, start: int, stop: int) -> dict[str, Ints]:
        """Which of the rows from ``start`` to before ``stop``, counted from there, are to be put aside, by name."""
        positions = self.positions(np.arange(start, stop))
        return {name: np.flatnonzero(np.isin(positions, shelf.missing())) for name, shelf in self._shelves.items()}

    def hand_in(self, name: str, rows: Ints, values: NDArray[Any]) -> None:
        """Rows that somebody else has read, to be put aside."""
        self._shelves[name].put_rows(self.positions(rows), values)

    def gather(self, name: str) -> None:
        """Read the rows of a name that have not come by, in one pass; nothing where the name is not known."""
        if self.keeps(name):
            for first, last in _near(self._shelves[name].missing()):
                self._checked(first, last + 1 - first)

    def forget(self, name: str) -> None:
        """Give back the memory of what was put aside under a name."""
        self._shelves.pop(name, None)

    def of_bags(self, offsets: Ints, numbers: Ints) -> "StoredRows":
        """The rows of some bags, one after the other, unread; ``offsets`` say where all bags begin."""
        return self._selection(self._runs(offsets[numbers], offsets[numbers + 1]))

    def followed_by(self, more: NDArray[Any]) -> "StoredRows":
        """These rows, unread, and some in memory after them."""
        return StoredRows(JoinedRows([self, more]), self._owners, self._names)

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """All rows, so many at a time."""
        for start in range(0, len(self), rows):
            yield self.read(start, min(start + rows, len(self)))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows from ``start`` to before ``stop``, in memory."""
        parts = [self._checked(first, size) for first, size in zip(*self._runs(start, stop), strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts])

    def _runs(self, start: Any, stop: Any) -> tuple[Ints, Ints]:
        """The runs of the source, by start and size, that make up a stretch of these rows, or several."""
        low, high = np.atleast_1d(start), np.atleast_1d(stop)
        first = np.searchsorted(self._places, low, side="right") - 1
        counts = np.maximum(np.searchsorted(self._places, high, side="left") - first, 0)
        run, stretch = ragged_ranges(first, counts), np.repeat(np.arange(len(low)), counts)
        lows = np.maximum(self._places[run], low[stretch])
        sizes = np.minimum(self._places[run + 1], high[stretch]) - lows
        there = sizes > 0
        return (self._starts[run] + lows - self._places[run])[there], sizes[there]

    def _window(self, start: int, stop: int) -> "StoredRows":
        return self._selection(self._runs(start, max(start, stop)))

    def _selection(self, runs: tuple[Ints, Ints]) -> "StoredRows":
        return StoredRows(self._source, self._owners, self._names, runs, self._shelves)

    def _picked(self, rows: Ints) -> NDArray[Any]:
        positions = self.positions(rows)
        for shelf in self._shelves.values():
            if (found := shelf.at(positions)) is not None:
                return found
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        order = np.argsort(positions, kind="stable")
        begin = 0
        for first, last in _near(ordered := positions[order]):
            end = int(np.searchsorted(ordered, last, side="right"))
            out[order[begin:end]] = self._checked(first, last + 1 - first)[ordered[begin:end] - first]
            begin = end
        return out

    def _checked(self, first: int, size: int) -> NDArray[Any]:
        """A run of the source, from a shelf or read; what was announced of it is put aside."""
        for shelf in self._shelves.values():
            if shelf.for_passes and (found := shelf.run(first, size)) is not None:
                return found
        values = self._read(int(first), int(size))
        for shelf in self._shelves.values():
            shelf.put(first, values)
        return values

    def _read(self, first: int, size: int) -> NDArray[Any]:
        with _READING:
            values = np.asarray(self._source.read(first, first + size))
        if values.shape != (size, self.shape[1]):
            raise BagDataError(
                f"rows {first} to {first + size} of the source have shape {values.shape}; expected "
                f"{(size, self.shape[1])}. Has the file changed?"
            )
        values = values.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
                self._refuse(first, values)
        return values

    def _refuse(self, first: int, values: NDArray[Any]) -> None:
        row, column = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
        name = f"column {column}" if self._names is None else f"column {self._names[column]!r}"
        found = "NaN" if np.isnan(values[row, column]) else "infinity"
        raise BagDataError(
            f"Input X contains {found}: bag {self._owners.of(first + row)!r}, {name}, row {first + row} of the table. "
            "bagwise needs finite features; drop that instance or fill it in before the file is written."
        )


def ragged_ranges(starts: Ints, sizes: Ints) -> Ints:
    """``concatenate([arange(a, a + n) for a, n in zip(starts, sizes)])`` without the loop."""
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _near(positions: Ints) -> Iterator[tuple[int, int]]:
    """The first and the last of positions (in ascending order) that are worth reading together, run by run."""
    if len(positions):
        for some in np.split(positions, np.flatnonzero(np.diff(positions // _BLOCK)) + 1):
            yield int(some[0]), int(some[-1])


def _whole(source: RowSource) -> tuple[Ints, Ints]:
    return np.zeros(1, dtype=np.int64), np.array([source.shape[0]], dtype=np.int64)


def _merged(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """The same rows in as few runs as possible."""
    if len(starts) < 2:
        return starts, sizes
    first = np.concatenate([[True], starts[1:] != starts[:-1] + sizes[:-1]])
    return starts[first], np.add.reduceat(sizes, np.flatnonzero(first))
