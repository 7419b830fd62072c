"""How much is worked on at once: large enough for fast products, small enough to stay out of the way."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

BLOCK = 4_000_000  # entries of one temporary (rows × points) table
STRETCH = 2**18  # entries of rows whose temporary results stay near the processor


def blocks(total: int, width: int) -> Iterator[slice]:
    """Slices of ``total`` things so that a table of some of them by ``width`` others stays within ``BLOCK`` entries."""
    step = max(1, BLOCK // max(1, width))
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def in_stretches(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """A function of single rows, of a stretch of them at a time: the same bits, several times faster than all at once.

    (Every temporary result of many rows is memory that the system has to hand out first.)
    """
    stretch = max(1, STRETCH // max(1, *(math.prod(part.shape[1:]) for part in rows)))
    if len(rows[0]) <= stretch or any(part.requires_grad or part.device.type != "cpu" for part in rows):
        return function(*rows)
    return torch.cat([function(*some) for some in zip(*(torch.split(part, stretch) for part in rows), strict=True)])
