"""What a compressed file may ask for: a limit on memory, and .npz archives read within it, array by array as asked."""

import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._files import PathLike
from bagwise.exceptions import BagDataError

LIMIT_VARIABLE = "BAGWISE_READ_LIMIT_GB"
_USUAL_LIMIT = 4.0  # GB
_LONGEST_HEADER = 10_000  # bytes before the numbers of an array; numpy refuses more, but only after reading it
_NUMBER_BYTES = 8  # features and labels become doubles, unless they are single precision
_TEXT_BYTES = 64  # the least that a piece of text needs in Python


def read_limit() -> float:
    """Bytes of memory that reading one compressed file may take."""
    text = os.environ.get(LIMIT_VARIABLE, str(_USUAL_LIMIT))
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise BagDataError(f"{LIMIT_VARIABLE}={text!r}: expected a positive number of gigabytes, or inf for no limit.")
    return limit * 1e9


def check_read_size(size: float, what: str) -> None:
    """Refuse what would take more memory than the limit. Called before it is read."""
    limit = read_limit()
    if size > limit:
        raise BagDataError(
            f"{what} needs {size / 1e9:.3g} GB of memory, more than the limit of {limit / 1e9:g} GB for a compressed "
            f"file. If the file is as it should be, set a higher limit, e.g. {LIMIT_VARIABLE}={math.ceil(size / 1e9)}."
        )


@contextmanager
def opened_archive(path: PathLike, complaint: str) -> Iterator["Arrays"]:
    """The arrays of an archive by name. Whatever is wrong with the file is reported with the ``complaint``."""
    with open(path, "rb") as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except Exception as error:  # a damaged directory can go wrong in many ways
            raise BagDataError(f"{path}: {complaint} ({str(error).rstrip('.') or type(error).__name__}).") from error
        with archive:
            yield Arrays(archive, path, complaint)


class Arrays(Mapping[str, NDArray[Any]]):
    """Arrays that are read when they are asked for, and only once; all together within the limit."""

    def __init__(self, archive: zipfile.ZipFile, path: PathLike, complaint: str) -> None:
        self._archive, self._path, self._complaint = archive, path, complaint
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        self._arrays: dict[str, NDArray[Any] | None] = dict.fromkeys(names)
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self._arrays[name]
        if array is None:
            self._check_size(name, *self._explained(name, self._header))
            array = self._arrays[name] = self._explained(name, self._content)
        return array

    def _explained(self, name: str, read: Callable[[str], Any]) -> Any:
        try:
            return read(name)
        except Exception as error:  # zipfile, zlib and NumPy each have their own
            reason = str(error).rstrip(".") or type(error).__name__
            raise BagDataError(f"{self._path}: {self._complaint} (array {name!r}: {reason}).") from error

    def _check_size(self, name: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        before, self._size = self._size, self._size + math.prod(shape) * _bytes_in_memory(kind)
        together = ", with what was read before it," if before else ""
        check_read_size(self._size, f"{self._path}: array {name!r} of shape {shape}{together}")

    def _content(self, name: str) -> NDArray[Any]:
        with self._archive.open(f"{name}.npy") as member:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return _valid_text(native) if native.dtype.kind == "U" else native

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array, read without any memory for its numbers."""
        with self._archive.open(f"{name}.npy") as member:
            start = member.read(12)
        short = start[6:8] == b"\x01\x00"
        if int.from_bytes(start[8:10] if short else start[8:12], "little") > _LONGEST_HEADER:
            raise ValueError("its header is too long")
        with self._archive.open(f"{name}.npy") as member:
            np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if short else np.lib.format.read_array_header_2_0
            shape, _, kind = read(member)
        if kind.hasobject or kind.kind not in "biufcmMSU" or min(shape, default=0) < 0:
            raise ValueError(f"it holds {kind}, not plain numbers or text")
        if self._archive.getinfo(f"{name}.npy").file_size < math.prod(shape) * kind.itemsize:
            raise ValueError(f"it is cut short: there are fewer numbers than its shape {shape} says")
        return shape, kind


def _bytes_in_memory(kind: np.dtype[Any]) -> int:
    if kind.kind in "SU":
        return max(_TEXT_BYTES, kind.itemsize)
    return kind.itemsize if kind == np.float32 else max(_NUMBER_BYTES, kind.itemsize)


def _valid_text(array: NDArray[Any]) -> NDArray[Any]:
    """The text, if it is some: a number that stands for no letter would go on to spoil whatever it is written to."""
    if array.dtype.itemsize:
        codes = np.ascontiguousarray(array).view(np.uint32)
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise ValueError("it holds text with letters that there are not")
    return array
