"""How much is worked on at once: large enough for fast products, small enough to stay out of the way."""

from collections.abc import Iterator

BLOCK = 4_000_000  # entries of one temporary (rows × points) table


def blocks(total: int, width: int) -> Iterator[slice]:
    """Slices of ``total`` things so that a table of some of them by ``width`` others stays within ``BLOCK`` entries."""
    step = max(1, BLOCK // max(1, width))
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))
