"""Which bags an index means: numbers, masks, slices, ids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import shorten

Ints = NDArray[np.int64]
_HOW_TO_INDEX = "bags are indexed by bag only: bags[3], bags[[0, 5]], bags[mask], bags[2:9], bags['id']"


def leading_key(key: Any) -> Any:
    """The index of the bags; of ``bags[indices, ...]``, as scikit-learn asks, the first of the two."""
    if not isinstance(key, tuple):
        return key
    if len(key) != 2 or key[1] is not Ellipsis:
        raise IndexError(_HOW_TO_INDEX)
    return key[0]


def chosen_bags(key: Any, ids: Sequence[str]) -> Ints:
    """The numbers of the bags that an index means."""
    everyone = np.arange(len(ids))
    if isinstance(key, slice):
        chosen: Ints = everyone[key]
        return chosen
    if isinstance(key, str):
        return everyone[[_number_of(key, ids)]]
    asked = np.asarray(key)
    if asked.shape == (0,):
        return everyone[:0]
    mask = asked.dtype.kind == "b"
    if asked.ndim > 1 or asked.dtype.kind not in "iub" or (mask and asked.ndim == 0):
        raise IndexError(f"{_HOW_TO_INDEX}; got {key!r}")
    if mask and len(asked) != len(ids):
        raise IndexError(f"the mask has {len(asked)} entries, but there are {len(ids)} bags")
    if not mask and (asked.max() >= len(ids) or asked.min() < -len(ids)):
        raise IndexError(f"there are {len(ids)} bags, numbered from 0; got {key!r}")
    return np.atleast_1d(everyone[asked])


def _number_of(name: str, ids: Sequence[str]) -> int:
    if name not in ids:
        raise KeyError(f"there is no bag {name!r}; bags.ids begins with {shorten(ids)}")
    return ids.index(name)
