"""Files appear whole or not at all."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PathLike = str | os.PathLike[str]


@contextmanager
def whole_file(path: PathLike) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; rename it to ``path`` only if the body succeeds."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}; create it first.")
    handle, name = tempfile.mkstemp(dir=target.parent or Path(), prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: PathLike, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a binary file that becomes ``path`` only when it is complete and on disk."""
    with whole_file(path) as temporary, temporary.open("wb") as stream:
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
