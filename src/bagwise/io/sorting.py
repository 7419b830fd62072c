"""A Parquet table sorted once, on disk, so that the rows of every bag stand together.

Bags keep the order of their first rows, and rows their order within a bag. The table is read in runs that fit into
memory. Every run goes to a file of its own, in which the rows of a piece (some whole bags each) stand together. Then
piece after piece is collected from all runs, sorted and written. So every row is read twice and written twice. A sort
that was stopped leaves its complete runs in a folder beside the output, from which the same sort goes on.
"""

import glob
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
from numpy.typing import NDArray
from pyarrow.parquet import ParquetWriter

from bagwise._files import PathLike, check_writable, is_stream, write_whole
from bagwise._validation import shorten
from bagwise.exceptions import BagDataError
from bagwise.sources.parquet import common_schema, opened_parquet, parquet_files

_PIECE_BYTES = 2**28
_MOST_PIECES = 500
_GROUP_ROWS = 2**16
_PIECES = b"bagwise pieces"  # which pieces the batches of a run hold, in the metadata of its schema

Ints = NDArray[np.int64]


def sort_table(path: Any, bag: str, output: PathLike, piece_bytes: int = _PIECE_BYTES) -> int:
    """Write the rows of a Parquet file (or a folder of them) bag by bag; returns the number of bags.

    ``piece_bytes`` is about what is held in memory. The output appears whole or not at all. The folder of the runs,
    OUTPUT.sorting-…, is named after the files that are sorted, and removed at the end.
    """
    paths = parquet_files(path)
    schema = common_schema(paths)
    if bag not in schema.names:
        raise BagDataError(f"{paths[0]}: there is no column {bag!r}; the table has {shorten(schema.names, 12)}.")
    check_writable(output)
    if is_stream(output):
        raise BagDataError(f"{output}: is no file; a table is sorted beside the file that it is written to.")
    sizes = _sizes(paths, bag)
    if not sizes:
        raise BagDataError(f"{paths[0]}: the table has no rows.")
    plan = _plan(paths, bag, sizes, piece_bytes)
    folder = _folder_of_runs(Path(output), plan.fingerprint(paths))
    runs = _written_runs(folder, paths, schema, plan)
    write_whole(output, partial(_collect, runs, schema, plan))
    shutil.rmtree(folder)
    return len(sizes)


class _Plan(NamedTuple):
    """How a table is taken apart."""

    bag: str
    place: pd.Series  # of every key among the bags
    piece: Ints  # of every bag
    n_rows: int
    run_rows: int

    def fingerprint(self, paths: list[Path]) -> str:
        """Of what a sort must have in common with one that was stopped."""
        files = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
        text = json.dumps([files, self.bag, int(self.piece[-1]), self.n_rows, self.run_rows])
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    def places(self, table: pyarrow.Table) -> Ints:
        """The place of the bag of every row."""
        found: Ints = table.column(self.bag).to_pandas().map(self.place).to_numpy()
        return found


def _plan(paths: list[Path], bag: str, sizes: dict[Any, int], piece_bytes: int) -> _Plan:
    """As many pieces as are needed: bags in their order, as many as fit; and as many runs."""
    ends = np.cumsum(list(sizes.values()))
    count = min(_MOST_PIECES, max(1, int(np.ceil(ends[-1] * _row_bytes(paths) / piece_bytes))))
    piece = np.minimum(ends * count // (ends[-1] + 1), count - 1)
    place = pd.Series(np.arange(len(sizes)), index=pd.Index(list(sizes)))
    return _Plan(bag, place, piece, int(ends[-1]), int(np.ceil(ends[-1] / count)))


def _tables(paths: list[Path], columns: list[str], start: int = 0) -> Iterator[pyarrow.Table]:
    """All rows from ``start`` on, some at a time; groups of rows before it are not read."""
    first = 0  # row of the table that comes next
    for path in paths:
        file = opened_parquet(path, pre_buffer=False)
        rows = [int(file.metadata.row_group(number).num_rows) for number in range(file.metadata.num_row_groups)]
        wanted = [number for number, end in enumerate(first + np.cumsum(rows)) if end > start]
        first += sum(rows) - sum(rows[number] for number in wanted)
        reading = {"row_groups": wanted, "columns": columns, "use_threads": False}
        for batch in file.iter_batches(_GROUP_ROWS, **reading) if wanted else ():
            before, first = first, first + len(batch)
            if first > start:
                yield pyarrow.Table.from_batches([batch.slice(max(0, start - before))])


def _sizes(paths: list[Path], bag: str) -> dict[Any, int]:
    """The keys by first appearance, with their numbers of rows."""
    sizes: dict[Any, int] = {}
    first = 0
    for table in _tables(paths, [bag]):
        keys = table.column(bag).to_pandas()
        if keys.isna().any():
            raise BagDataError(
                f"{paths[0]}: column {bag!r} is empty in row {first + int(keys.isna().argmax())}; every instance must "
                "belong to a bag."
            )
        first += len(keys)
        for key, count in keys.value_counts(sort=False).items():
            sizes[key] = sizes.get(key, 0) + int(count)
    return sizes


def _row_bytes(paths: list[Path]) -> float:
    """Bytes of a row in memory, about."""
    files = [opened_parquet(path).metadata for path in paths]
    groups = [file.row_group(number) for file in files for number in range(file.num_row_groups)]
    rows = sum(int(group.num_rows) for group in groups)
    packed = sum(int(group.total_byte_size) for group in groups)
    return max(1.0, 8.0 * int(files[0].num_columns), packed / max(1, rows))


# ---------------------------------------------------------------- runs


def _folder_of_runs(output: Path, fingerprint: str) -> Path:
    """A folder that is empty or that the same sort has left; those that other sorts have left are removed."""
    folder = output.parent / f"{output.name}.sorting-{fingerprint}"
    for other in output.parent.glob(f"{glob.escape(output.name)}.sorting-{16 * '[0-9a-f]'}"):
        if other != folder:
            shutil.rmtree(other)
    folder.mkdir(exist_ok=True)
    return folder


def _written_runs(folder: Path, paths: list[Path], schema: pyarrow.Schema, plan: _Plan) -> list[Path]:
    """The files of all runs; those that are there already are not made again."""
    count = -(-plan.n_rows // plan.run_rows)
    names = [folder / f"run-{number:04d}.arrow" for number in range(count)]
    done = next((number for number, path in enumerate(names) if not path.is_file()), count)
    rest = (table.cast(schema) for table in _tables(paths, schema.names, done * plan.run_rows))
    for path, run in zip(names[done:], _by_rows(rest, plan.run_rows), strict=True):
        write_whole(path, partial(_write_run, run, plan))
    return names


def _by_rows(tables: Iterable[pyarrow.Table], rows: int) -> Iterator[pyarrow.Table]:
    """The same rows, so many at a time."""
    held: list[pyarrow.Table] = []
    for table in tables:
        held.append(table)
        while sum(map(len, held)) >= rows:
            whole = pyarrow.concat_tables(held)
            yield whole.slice(0, rows)
            held = [whole.slice(rows)]
    if sum(map(len, held)):
        yield pyarrow.concat_tables(held)


def _write_run(run: pyarrow.Table, plan: _Plan, stream: IO[bytes]) -> None:
    """One batch for every piece that the run has rows of."""
    pieces = plan.piece[plan.places(run)]
    order = np.argsort(pieces, kind="stable")
    numbers, sizes = np.unique(pieces, return_counts=True)
    ordered = run.take(order).unify_dictionaries().combine_chunks()
    schema = run.schema.with_metadata({**(run.schema.metadata or {}), _PIECES: json.dumps(numbers.tolist())})
    with pyarrow.ipc.new_file(stream, schema) as writer:
        for end, size in zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True):
            writer.write_table(ordered.slice(end - size, size).replace_schema_metadata(schema.metadata), size)


def _collect(runs: Sequence[Path], schema: pyarrow.Schema, plan: _Plan, stream: IO[bytes]) -> None:
    """Every piece from all runs, sorted; rows of a bag stay in the order of the runs."""
    with ParquetWriter(stream, schema) as writer:
        for piece in np.unique(plan.piece).tolist():
            table = pyarrow.concat_tables([part for path in runs if (part := _part(path, piece)) is not None])
            order = np.argsort(plan.places(table), kind="stable")
            writer.write_table(table.take(order).cast(schema), row_group_size=_GROUP_ROWS)


def _part(path: Path, piece: int) -> pyarrow.Table | None:
    """What a run holds of a piece."""
    with pyarrow.memory_map(str(path)) as source:
        run = pyarrow.ipc.open_file(source)
        pieces = json.loads(run.schema.metadata[_PIECES])
        if piece not in pieces:
            return None
        return pyarrow.Table.from_batches([run.get_batch(pieces.index(piece))])
