"""One process, within bounds: memory for features, a folder for what does not fit, threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bagwise import _validation as check
from bagwise.exceptions import BagDataError
from bagwise.inference.places import PLACE, ChunkPlace, ThisProcess


@contextmanager
def within(*, memory: Any = None, cache: Any = None, threads: int | None = None) -> Iterator[None]:
    """Bounds for every ``fit`` inside of the ``with`` block.

    Parameters
    ----------
    memory : int, str or None
        Bytes of features to hold in memory, a number or text such as "4GB". Features that need more are computed once
        and kept in a temporary file, which has no name and is gone with the process. None takes a quarter of the
        memory of this machine; where the features live on a GPU, half of what is free there. It is not a limit for the
        whole process: besides, there are a few chunks of rows, and what the inference remembers of every instance.
    cache : str, path or None
        Folder of that temporary file; None takes the usual one (``TMPDIR``). Choose a fast disk with enough room: N
        rows with R inducing inputs take 8 N (R + 2) bytes, half of that with ``dtype="float32"``.
    threads : int or None
        Number of threads of every step; None leaves it to torch. The last digits of sums depend on it, so give it where
        fits are to be the same to the last bit.

    The answer depends on none of them, beyond rounding.
    """
    folder = None if cache is None else os.fspath(cache)
    if folder is not None and not os.path.isdir(folder):
        raise BagDataError(f"cache={folder!r}: there is no such folder; create it first.")
    count = None if threads is None else check.check_count("threads", threads)
    with placed(ThisProcess(check.check_bytes("memory", memory), folder, count)):
        yield


@contextmanager
def placed(place: ChunkPlace) -> Iterator[None]:
    """Chunks live there meanwhile."""
    token = PLACE.set(place)
    try:
        yield
    finally:
        PLACE.reset(token)
