"""Rows that are read ahead: while some are worked on, a thread reads the next."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items in the same order; one more of them is made meanwhile. Errors come where they would come else."""
    remaining = iter(items)
    with ThreadPoolExecutor(1, "bagwise-reads-ahead") as thread:
        coming = thread.submit(next, remaining, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, remaining, _END)
            yield item
