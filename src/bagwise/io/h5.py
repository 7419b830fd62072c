"""One h5 file of tile features and positions, as TRIDENT, CLAM and STAMP write them. Nothing here knows of bags.

=========  ==================================================  ==================================================
written by  features                                            positions
=========  ==================================================  ==================================================
TRIDENT    ``features``, (n, d) or (1, n, d)                    ``coords``, with attributes such as ``patch_size``
CLAM       ``features``, (n, d)                                 ``coords``, with attributes
STAMP      ``feats`` or ``patch_embeddings``, (n, d)            ``coords``; the file says ``unit="um"``
=========  ==================================================  ==================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bagwise._archives import check_read_size
from bagwise._files import PathLike
from bagwise._validation import shorten, visible
from bagwise.exceptions import BagDataError

SUFFIXES = (".h5", ".hdf5")
FEATURES = ("features", "feats", "patch_embeddings")
COORDS = "coords"
_BLOCK = 2**22  # numbers that are looked at together

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class TileFile:
    """What the head of a file says; its numbers stay where they are."""

    path: Path
    dataset: str
    stacked: bool  # (1, n, d) rather than (n, d)
    shape: tuple[int, int]
    dtype: np.dtype[Any]  # float64 where the file has it, float32 else
    unit: str  # of the positions: "px" or "um"; "" without any
    tile_size: float | None  # side of a tile in that unit, where the file says it

    def read(self, start: int, stop: int) -> Floats:
        """Some rows of the features."""
        with _readable(self.path) as file:
            found = file[self.dataset]
            rows = found[0, start:stop] if self.stacked else found[start:stop]
        kept: Floats = np.asarray(rows, dtype=self.dtype)
        return kept

    def coords(self) -> NDArray[np.float64]:
        """(n, 2) position of every tile, left and top; NaN where the file has none."""
        if not self.unit:
            return np.full((self.shape[0], 2), np.nan)
        with _readable(self.path) as file:
            found = file[COORDS]
            rows = found[0] if found.ndim == 3 else found[()]
        return np.asarray(rows, dtype=np.float64)[:, :2]

    def first_bad_row(self) -> int | None:
        """The first row with NaN or infinity, None where every number is finite."""
        step = max(1, _BLOCK // self.shape[1])
        for start in range(0, self.shape[0], step):
            wrong = ~np.isfinite(self.read(start, start + step)).all(axis=1)
            if wrong.any():
                return start + int(np.flatnonzero(wrong)[0])
        return None


def open_tiles(path: PathLike) -> TileFile:
    """Look at the head of a file; anything that is not as it should be is an error that names the file."""
    where = Path(path)
    if not where.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    with _readable(where) as file:
        return _described(where, file)


@contextmanager
def _readable(path: Path) -> Iterator[Any]:
    """An open file; whatever is wrong with it is reported with its name."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except BagDataError:
        raise
    except Exception as error:  # h5py raises OSError, KeyError, RuntimeError and more for damaged files
        reason = visible(str(error).strip().splitlines()[0])[:200] if str(error).strip() else type(error).__name__
        raise BagDataError(f"{path}: cannot be read as an h5 file ({reason.rstrip('.')}).") from error


def _described(path: Path, file: Any) -> TileFile:
    name = next((name for name in FEATURES if name in file), None)
    if name is None:
        raise BagDataError(
            f"{path}: holds no features; expected an array {shorten(FEATURES)}, found {shorten(file, 12) or 'nothing'}."
        )
    found = _dataset(path, file, name)
    stacked = found.ndim == 3 and found.shape[0] == 1
    if not (stacked or found.ndim == 2) or found.dtype.kind not in "fiu":
        raise BagDataError(
            f"{path}: {name!r} must hold numbers of shape (tiles, features), got {found.dtype} of shape {found.shape}."
        )
    n, d = (int(size) for size in found.shape[-2:])
    if n == 0 or d == 0:
        raise BagDataError(f"{path}: {name!r} has shape {found.shape}: there are no tiles in it.")
    dtype = np.dtype(np.float64 if found.dtype == np.float64 else np.float32)
    check_read_size(float(n) * d * dtype.itemsize, f"{path}: {name!r} of shape {found.shape}")
    unit, size = _positions(path, file, n)
    return TileFile(path, name, stacked, (n, d), dtype, unit, size)


def _dataset(path: Path, file: Any, name: str) -> Any:
    """An array of this very file: a link would lead to another one."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not isinstance(file[name], h5py.Dataset):
        raise BagDataError(f"{path}: {name!r} is a link or a folder, not an array of this file.")
    found = file[name]
    if found.external or found.is_virtual:
        raise BagDataError(f"{path}: the numbers of {name!r} lie in another file; write them into this one.")
    return found


def _positions(path: Path, file: Any, n: int) -> tuple[str, float | None]:
    if COORDS not in file:
        return "", None
    found = _dataset(path, file, COORDS)
    shape = found.shape[1:] if found.ndim == 3 and found.shape[0] == 1 else found.shape
    if found.dtype.kind not in "fiu" or len(shape) != 2 or shape[0] != n or shape[1] < 2:
        raise BagDataError(
            f"{path}: {COORDS!r} must hold two numbers for each of {n} tiles, got {found.dtype} of shape {found.shape}."
        )
    notes = {**dict(file.attrs), **dict(found.attrs)}
    unit = "um" if _text(notes.get("unit")) in ("um", "µm", "micron") else "px"
    return unit, _tile_size(notes, unit)


def _tile_size(notes: dict[str, Any], unit: str) -> float | None:
    """Side of a tile in the unit of its position; positions in pixels are those of the finest level."""
    names = ("tile_size_um", "tile_size") if unit == "um" else ("patch_size_level0", "ref_patch_size")
    for name in names:
        if name in notes:
            return _positive(notes[name])
    size = _positive(notes.get("patch_size"))
    if unit == "um" or size is None:
        return size
    fine, coarse = (_positive(notes.get(name)) for name in ("level0_magnification", "target_magnification"))
    return size if fine is None or coarse is None else size * fine / coarse


def _positive(value: Any) -> float | None:
    try:
        number = float(np.ravel(np.asarray(value, dtype=np.float64))[0])
    except (TypeError, ValueError, IndexError):
        return None
    return number if np.isfinite(number) and number > 0 else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
