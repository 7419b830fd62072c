"""A folder with one h5 file per bag (or per part of a bag), and the table that says what is known of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._files import PathLike
from bagwise._frames import PANDAS, as_pandas
from bagwise._validation import check_named_columns, group_codes, label_of_bags, shorten
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user
from bagwise.inference.places import PLACE
from bagwise.io.h5 import SUFFIXES, Floats, TileFile, open_tiles
from bagwise.io.tables import read_table
from bagwise.sources.arrays import Stamp

_FILE = " file"  # a column of our own, called as none of the user's is
MOST_NAMED = 1000  # bad files that one message lists


@dataclass(frozen=True)
class FolderTable:
    """How the table describes the files: names of its columns."""

    bag: str
    part: str | None = None  # below the bag; then there is one file per part
    group: str | None = None  # above the bag
    file: str | None = None  # which file; None: the part's key, or the bag's, is its name
    labels: tuple[str, ...] = ()
    meta: tuple[str, ...] = ()

    @property
    def name_of_file(self) -> str:
        """The column that names the file."""
        return self.file or self.part or self.bag


class FolderData(NamedTuple):
    """Bags of a folder, what the table says of them, and what was left out."""

    bags: Bags
    labels: pd.DataFrame  # one row per bag, in the order of ``bags.ids``, a column for each label that was named
    skipped: Mapping[str, str]  # name of a file, or of a row of the table: why


class FolderRows:
    """The rows of several files one after the other, read when they are asked for."""

    def __init__(self, files: Sequence[TileFile]) -> None:
        self._files, self._stamps = tuple(files), tuple(Stamp(file.path) for file in files)
        self._starts = np.concatenate([[0], np.cumsum([file.shape[0] for file in files])])
        self.shape: tuple[int, int] = int(self._starts[-1]), files[0].shape[1]
        self.dtype: np.dtype[Any] = np.result_type(*{file.dtype for file in files})

    def read(self, start: int, stop: int) -> Floats:
        """Rows ``start`` to ``stop`` in the order of the files."""
        begin = max(0, int(np.searchsorted(self._starts, start, side="right")) - 1)
        rows = np.empty((max(0, min(stop, self.shape[0]) - start), self.shape[1]), self.dtype)
        done = 0
        for number in range(begin, len(self._files)):
            if done == len(rows):
                break
            inside = start + done - int(self._starts[number])
            self._stamps[number].check()
            some = self._files[number].read(inside, inside + len(rows) - done)
            rows[done : done + len(some)] = some
            done += len(some)
        return rows


def read_folder(
    folder: PathLike, table: Any = None, columns: FolderTable | None = None, *, skip_bad: bool = False
) -> FolderData:
    """Bags of the files; without a table every file is a bag. See ``Bags.from_folder``."""
    files = _files_in(folder)
    named = FolderTable("bag") if table is None or columns is None else columns
    frame, kind = (pd.DataFrame({"bag": list(files)}), PANDAS) if table is None else _table(table, named)
    skipped: dict[str, str] = {}
    frame = _matched(frame, named.name_of_file, files, skipped)
    opened = _opened([files[name] for name in frame[_FILE]], skipped)
    _refuse(folder, skipped, skip_bad)
    frame = frame[[name in opened for name in frame[_FILE]]]
    keys = [named.bag, *([] if named.part is None else [named.part])]  # rows of a bag, and of a part, stand together
    frame = frame.sort_values(keys, key=lambda column: pd.factorize(column)[0], kind="stable")
    bags = _bags(frame, named, [opened[name] for name in frame[_FILE]])
    return FolderData(bags.of_kind(kind), _of_bags(frame, named, bags), skipped)


def labelled_folder(folder: PathLike, table: Any, columns: FolderTable, *, skip_bad: bool) -> tuple[Bags, NDArray[Any]]:
    """Bags and their labels, one column each; a warning names what was left out."""
    found = read_folder(folder, table, columns, skip_bad=skip_bad)
    if found.skipped:
        warn_user(f"{folder}: left out {len(found.skipped)}: {_listed(found.skipped)}.", BagDataWarning)
    return found.bags, found.labels.to_numpy()


def _files_in(folder: PathLike) -> dict[str, Path]:
    """Files by their name without the suffix, in the order of their names."""
    there = Path(folder)
    if not there.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder.")
    found = sorted(path for path in there.iterdir() if path.name.lower().endswith(SUFFIXES) and path.is_file())
    files = {_stem(path): path for path in found}
    if not files:
        raise BagDataError(f"{folder}: there are no files that end in {' or '.join(SUFFIXES)} in this folder.")
    return files


def _table(table: Any, columns: FolderTable) -> tuple[pd.DataFrame, str]:
    """The table with its keys as text, and the kind of frame that it came as."""
    kind, keys = PANDAS, [name for name in (columns.bag, columns.part, columns.group, columns.file) if name is not None]
    if isinstance(table, str | Path):
        frame = read_table(table, columns.bag, text=keys)
    else:
        given, kind = as_pandas(table)
        frame = given.copy()
        check_named_columns(frame, keys, ())
        frame[keys] = frame[keys].astype(object).map(str)
    check_named_columns(frame, [*keys, *columns.labels, *columns.meta], ())
    return frame, kind


def _matched(frame: pd.DataFrame, column: str, files: Mapping[str, Path], skipped: dict[str, str]) -> pd.DataFrame:
    """The table with the file of every row; rows without a file and files without a row are noted."""
    by_name = {path.name: name for name, path in files.items()}
    names = [key if key in files else by_name.get(key) for key in frame[column]]
    for key, name in zip(frame[column], names, strict=True):
        if name is None:
            skipped[key] = "named in the table, but there is no such file"
    for name in set(files) - set(names):
        skipped[files[name].name] = "there is no row for this file in the table"
    frame = frame.assign(**{_FILE: pd.Series(names, index=frame.index, dtype=object)})
    frame = frame[[name is not None for name in names]]
    twice = frame[_FILE][frame[_FILE].duplicated()]
    if len(twice):
        raise BagDataError(f"the table names file {shorten(twice)} more than once; give one row per file.")
    return frame


def _opened(paths: Iterable[Path], skipped: dict[str, str]) -> dict[str, TileFile]:
    """The files that can be used, by their names without suffix; the others are noted."""
    found: dict[str, TileFile] = {}
    for path in paths:
        try:
            found[_stem(path)] = open_tiles(path)
        except (BagDataError, OSError) as error:
            skipped[path.name] = _without_name(error, path)
    if len({file.unit for file in found.values() if file.unit}) > 1:
        raise BagDataError("some files give positions in pixels and others in micrometres; read them apart.")
    usual = int(pd.Series([file.shape[1] for file in found.values()], dtype=np.int64).mode().max()) if found else 0
    skipped |= {file.path.name: why for file in found.values() if (why := _fault(file, usual))}
    return {name: file for name, file in found.items() if file.path.name not in skipped}


def _fault(file: TileFile, width: int) -> str | None:
    """What is wrong with the numbers of a file, beside files that mostly have this many features."""
    if file.shape[1] != width:
        return f"has {file.shape[1]} features, most files have {width}"
    try:
        row = file.first_bad_row()
        if row is not None:
            return f"tile {row} holds NaN or infinity"
        return "a position is NaN or infinity" if file.unit and not np.isfinite(file.coords()).all() else None
    except BagDataError as error:
        return _without_name(error, file.path)


def _without_name(error: Exception, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ").rstrip(".")


def _stem(path: Path) -> str:
    """The name without its last suffix, and with all its other dots."""
    return path.name[: path.name.rindex(".")]


def _refuse(folder: PathLike, skipped: Mapping[str, str], skip_bad: bool) -> None:
    if skipped and not skip_bad:
        raise BagDataError(
            f"{folder}: {len(skipped)} files or rows of the table cannot be used: {_listed(skipped)}. Mend them, or "
            "leave them out with skip_bad=True (--skip-bad)."
        )


def _listed(skipped: Mapping[str, str]) -> str:
    """What cannot be used and why, for one message."""
    some = [f"{name!r} ({why})" for name, why in list(skipped.items())[:MOST_NAMED]]
    return "; ".join(some) + (f"; … {len(skipped)} in all" if len(skipped) > MOST_NAMED else "")


def _bags(frame: pd.DataFrame, columns: FolderTable, files: Sequence[TileFile]) -> Bags:
    """Bags in memory where their rows fit into it; others stay in the files."""
    if not files:
        raise BagDataError("no file is left that could be used.")
    per_file = np.array([file.shape[0] for file in files], dtype=np.int64)
    codes, ids = group_codes(frame[columns.bag].to_numpy(), len(frame))
    opened = Bags.from_source(
        FolderRows(files),
        np.bincount(codes, weights=per_file).astype(np.int64),
        ids,
        part=None if columns.part is None else np.repeat(frame[columns.part].to_numpy(), per_file),
        meta={name: np.repeat(frame[name].to_numpy(), per_file) for name in columns.meta} | _places(files),
    )
    bags = opened if opened.X.nbytes > PLACE.get().memory_bytes() else opened.in_memory()
    return bags if columns.group is None else bags.with_group(label_of_bags(frame[columns.group], codes, ids))


def _places(files: Sequence[TileFile]) -> dict[str, NDArray[np.float64]]:
    """Positions as columns of ``meta``: x, y, or x_um, y_um; none where no file has any."""
    units = {file.unit for file in files if file.unit}
    if not units:
        return {}
    coords = np.concatenate([file.coords() for file in files])
    names = ("x_um", "y_um") if units == {"um"} else ("x", "y")
    return dict(zip(names, coords.T, strict=True))


def _of_bags(frame: pd.DataFrame, columns: FolderTable, bags: Bags) -> pd.DataFrame:
    """Labels of the bags; one that varies between the files of a bag is an error."""
    codes = group_codes(frame[columns.bag].to_numpy(), len(frame))[0]
    found = {name: label_of_bags(frame[name], codes, bags.ids) for name in columns.labels}
    return pd.DataFrame(found, index=list(bags.ids))
