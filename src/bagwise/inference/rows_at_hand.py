"""Rows of a file that a fit holds in memory, so that the file is read less often."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, ragged_ranges
from bagwise.inference.places import PLACE

_SHARE = 4  # of the memory that features may take, one part in so many
_ALL, _SOME = "all rows", "some bags"


@contextmanager
def rows_at_hand(bags: Bags) -> Iterator[None]:
    """Rows are put aside when they are first read, if there is room for all of them; at the end they are forgotten."""
    if not bags.stays_in_file:
        yield
        return
    if _fit(bags, np.arange(len(bags))):
        bags.X.keep(_ALL)
    try:
        yield
    finally:
        bags.X.forget(_ALL)
        bags.X.forget(_SOME)


def gather_rows(bags: Bags, choices: Iterable[NDArray[np.int64]]) -> None:
    """Read all rows that are held anyway, or the first choice of bags that there is room for; held as long."""
    if bags.X.keeps(_ALL):
        bags.X.gather(_ALL)
        return
    for chosen in choices:
        if _fit(bags, chosen):
            bags.X.keep(_SOME, ragged_ranges(bags.offsets[chosen], bags.sizes[chosen]))
            bags.X.gather(_SOME)
            return


def _fit(bags: Bags, chosen: NDArray[np.int64]) -> bool:
    """Whether this process needs the rows of some bags, and has room for them."""
    place, n_rows = PLACE.get(), int(bags.sizes[chosen].sum())
    n_bytes: int = n_rows * (bags.X.nbytes // bags.n_instances)
    return place.works_here(n_rows) and n_bytes <= place.memory_bytes() // _SHARE
