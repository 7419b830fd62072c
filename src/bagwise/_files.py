"""Files appear whole or not at all, only ordinary files are ever replaced, and locks end with their process."""

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from bagwise.exceptions import BagDataError, warn_user

if sys.platform != "win32":  # Windows has no such locks: there, nothing is cleaned up and nothing is kept apart
    import fcntl

PathLike = str | os.PathLike[str]

_NAME_KEPT = 40  # characters of a name that its temporary file repeats; a digest stands for the rest
_STANDARD = (1, 2)  # descriptors of standard output and standard error


# ---------------------------------------------------------------- writing


def write_whole(path: PathLike, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a binary file that becomes ``path`` only when it is complete and on disk.

    A symbolic link stays and the file it points to is replaced; a replaced file keeps its mode. A device or a pipe
    cannot be replaced: it is written to when everything is there to be written.
    """
    if is_stream(path):
        whole = io.BytesIO()
        write(whole)
        _pour(path, whole)
        return
    _check_place(path)
    target = Path(os.path.realpath(path))
    _remove_left_over(target)
    replaced = stat.S_IMODE(_mode_of(target)) & 0o777
    with _temporary(target, replaced or 0o666) as stream:
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())
        if replaced:
            os.chmod(stream.name, replaced)
        os.replace(stream.name, target)


def check_writable(path: PathLike) -> None:
    """Find out before the work, not after it, that its result cannot be written."""
    import tempfile  # here and below: imports that would slow down commands that write nothing

    _check_place(path)
    if is_stream(path):
        return
    try:
        with tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent):
            pass
    except OSError as error:
        raise type(error)(f"{path}: cannot be written ({error.strerror}).") from error


def is_stream(path: PathLike) -> bool:
    """Whether ``path`` is a device, a pipe or a standard stream of this process: written to, never replaced."""
    mode = _mode_of(path)
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or _standard_stream(path) is not None


def is_standard_output(path: PathLike) -> bool:
    """Whether what is written to ``path`` appears among what the program prints."""
    return _standard_stream(path) == _STANDARD[0]


def is_same_file(one: PathLike, other: PathLike) -> bool:
    """Whether two names lead to one file: through links of any kind, or by another spelling; it need not exist yet."""
    with suppress(OSError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _check_place(path: PathLike) -> None:
    mode, target = _mode_of(path), Path(os.path.realpath(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path}: is a folder; give the name of a file.")
    if is_stream(path):  # a standard stream may well be a socket
        return
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        raise OSError(
            f"{path}: is a {'socket' if stat.S_ISSOCK(mode) else 'disk'}, not a file; give the name of a file."
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: cannot be written, there is no folder {target.parent}; create it first.")


def _mode_of(path: PathLike) -> int:
    """Kind and permissions of what is there, 0 where nothing is."""
    with suppress(FileNotFoundError):
        return os.stat(path).st_mode
    return 0


def _standard_stream(path: PathLike) -> int | None:
    """The standard descriptor that ``path`` leads to: /dev/stdout, or a file that the shell redirected it to."""
    for number in _STANDARD:
        with suppress(OSError):  # a descriptor that is closed, a path that is not there
            if os.path.samestat(os.stat(path), os.fstat(number)):
                return number
    return None


def _pour(path: PathLike, whole: io.BytesIO) -> None:
    number = _standard_stream(path)
    sys.stdout.flush()
    sys.stderr.flush()
    with open(path, "wb") if number is None else os.fdopen(os.dup(number), "wb") as stream:
        stream.write(whole.getbuffer())


# ---------------------------------------------------------------- temporary files


@contextmanager
def _temporary(target: Path, mode: int) -> Iterator[IO[bytes]]:
    """A new file beside ``target``, locked while it is open; it is gone at the end, unless it was renamed."""
    stream = _locked_beside(target, mode)
    try:
        yield stream
    finally:
        Path(stream.name).unlink(missing_ok=True)
        stream.close()


def _locked_beside(target: Path, mode: int) -> IO[bytes]:
    while True:
        path = target.parent / f"{_prefix(target)}{os.urandom(8).hex()}.part"
        stream = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        with suppress(OSError):  # without locks nobody removes what is left over
            _lock(stream.fileno(), wait=True)
        if os.fstat(stream.fileno()).st_nlink:
            return stream
        stream.close()  # somebody who writes the same file took it for left over before it was locked


def _prefix(target: Path) -> str:
    import hashlib

    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]
    return f".{target.name[:_NAME_KEPT]}.{digest}."


def _remove_left_over(target: Path) -> None:
    """Remove what writers of the same file left behind when they were killed; one at work holds its lock."""
    prefix = _prefix(target)
    for name in os.listdir(target.parent):
        if name.startswith(prefix) and name.endswith(".part"):
            with suppress(OSError):  # somebody else removed it, or there are no locks to ask
                _remove_unless_held(target.parent / name)


def _remove_unless_held(path: Path) -> None:
    if stat.S_ISREG(path.lstat().st_mode):
        with path.open("r+b") as stream:
            if _lock(stream.fileno()):
                path.unlink()


# ---------------------------------------------------------------- locks


def _lock(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file until it is closed, at the latest by the end of the process; False where another holds it."""
    if sys.platform == "win32":
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextmanager
def alone_in(folder: Path, who: str) -> Iterator[None]:
    """Keep a second process of the same kind out of a folder. A lock ends with its process, however that ends."""
    with (folder / ".lock").open("a+b") as stream:
        try:
            free = _lock(stream.fileno())
        except OSError as error:
            warn_user(
                f"{folder}: cannot be locked ({error.strerror}); take care that no other {who} writes there.",
                UserWarning,
            )
            free = True
        stream.seek(0)
        if not free:
            number = stream.read().decode("ascii", "replace")
            raise BagDataError(
                f"{folder}: another {who} (process {number}) writes its results there; wait until it has ended, or "
                "choose another folder."
            )
        stream.truncate()
        stream.write(str(os.getpid()).encode())
        stream.flush()
        yield
