"""Rows in files that hold one array: ``.npy`` and safetensors, and rows of several sources after one another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from bagwise._files import PathLike
from bagwise.exceptions import BagDataError

_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.float32}
_INTEGERS = ("I64", "I32", "I16", "I8", "U8", "BOOL")


class Stamp:
    """A file as it was when it was opened; one that has changed since is an error."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self._seen = self._look()

    def _look(self) -> tuple[int, int]:
        there = self.path.stat()
        return there.st_size, there.st_mtime_ns

    def check(self) -> None:
        """Refuse a file that was changed or removed."""
        try:
            same = self._look() == self._seen
        except FileNotFoundError:
            raise BagDataError(
                f"{self.path}: the file is gone, or cannot be seen from this machine; bags that stay in their files "
                "need them until the end. Put it back (the same path on every machine) and begin again."
            ) from None
        if not same:
            raise BagDataError(
                f"{self.path}: the file has changed since it was opened; open it again with Bags.open (a folder with "
                "Bags.from_folder), and do not write to it meanwhile."
            )


class NpyRows:
    """The rows of a ``.npy`` file of numbers in two dimensions; only the rows that are asked for are in memory."""

    def __init__(self, path: PathLike) -> None:
        self._stamp = Stamp(path)
        mapped = self._mapped()
        if mapped.ndim != 2 or mapped.dtype.kind not in "fiub":
            raise BagDataError(
                f"{path}: expected an array of numbers with one row per instance, got {mapped.dtype} of shape "
                f"{mapped.shape}."
            )
        self.shape: tuple[int, int] = mapped.shape
        self.dtype = mapped.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows of the file; the map is closed again, so that its pages do not count as memory of this process."""
        self._stamp.check()
        return np.array(self._mapped()[start:stop])

    def _mapped(self) -> NDArray[Any]:
        return _loaded(self._stamp.path, mapped=True)


class SafetensorsRows:
    """The rows of one tensor of a safetensors file."""

    def __init__(self, path: PathLike, name: str) -> None:
        self._stamp, self._name = Stamp(path), name
        with _opened(self._stamp.path) as file:
            names = file.keys()
            part = file.get_slice(name) if name in names else None
            if part is None or len(part.get_shape()) != 2 or part.get_dtype() not in (*_TYPES, *_INTEGERS):
                raise BagDataError(
                    f"{path}: expected a tensor {name!r} of numbers with one row per instance; the file has "
                    f"{', '.join(sorted(names))}."
                )
            rows, columns = part.get_shape()
            self.shape: tuple[int, int] = rows, columns
            self.dtype = np.dtype(_TYPES.get(part.get_dtype(), np.float64))
            self._widened = part.get_dtype() == "BF16"  # which NumPy does not know

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows of the tensor."""
        self._stamp.check()
        with _opened(self._stamp.path) as file:
            part = file.get_slice(self._name)[start:stop]
            values: NDArray[Any] = (
                part.float() if part.dtype.itemsize == 2 and self.dtype == np.float32 else part
            ).numpy()
        return values


def tensor_of(path: PathLike, name: str) -> NDArray[Any]:
    """A whole tensor of a safetensors file."""
    with _opened(Path(path)) as file:
        names = file.keys()
        if name not in names:
            raise BagDataError(f"{path}: there is no tensor {name!r}; the file has {', '.join(sorted(names))}.")
        values: NDArray[Any] = file.get_tensor(name).numpy()
    return values


def array_of(given: Any) -> NDArray[Any]:
    """An array, or what a ``.npy`` file holds."""
    return _loaded(Path(given), mapped=False) if isinstance(given, str | Path) else np.asarray(given)


def _loaded(path: Path, *, mapped: bool) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError:
        raise
    except (ValueError, EOFError, OSError) as error:
        raise BagDataError(f"{path}: cannot be read as a .npy file of numbers or text ({error}).") from error
    return found


def _opened(path: Path) -> Any:
    try:
        return safetensors.safe_open(path, framework="pt")
    except FileNotFoundError:
        raise
    except Exception as error:  # the package has errors of its own
        raise BagDataError(f"{path}: cannot be read as a safetensors file ({error}).") from error


class JoinedRows:
    """The rows of several sources (or arrays), one source after the other."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)
        self._starts = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])])
        self.shape: tuple[int, int] = (int(self._starts[-1]), int(parts[0].shape[1]))
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows across the sources."""
        first, last = np.searchsorted(self._starts, [start, max(start, stop - 1)], side="right") - 1
        pieces = []
        for number in range(first, min(last, len(self._parts) - 1) + 1):
            part, begin = self._parts[number], int(self._starts[number])
            low, high = max(start - begin, 0), min(stop - begin, part.shape[0])
            pieces.append(part[low:high] if isinstance(part, np.ndarray) else part.read(low, high))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
