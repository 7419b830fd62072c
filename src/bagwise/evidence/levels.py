"""Labels at two levels at once: of some bags, and of some of their parts.

Under the rule "at least one" labels of both levels say the same as labels of disjoint bags, exactly: a labelled part is
a bag of its own; what is left of its bag is positive if the bag is positive and no part of it is known to be, negative
if the bag is, and states nothing otherwise. So every model of labels learns from both levels without a change.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.labels import label_array
from bagwise.evidence.statements import label
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]


class TwoLevels(NamedTuple):
    """Disjoint bags with their labels; ``bags.group`` names the bag that each comes from."""

    bags: Bags
    y: Floats  # 0, 1, NaN


def two_levels(bags: Bags, y: Any, part_y: Any) -> TwoLevels:
    """Bags to fit where some bags are labelled and some of their parts (a patient, and some of the patient's slides).

    Parameters
    ----------
    bags : Bags with parts
    y : one label per bag, 0, 1 or NaN (unknown), or keyed by id
    part_y : one label per part, in the order of ``bags.by_part().ids``, or keyed by the parts' ids

    Returns
    -------
    bags, y : a bag for every labelled part, and one for what is left of every bag; ``bags.group`` keeps together what
        belongs to one bag. Rows are in a new order: ``rows`` still say where they stood in the table.
    """
    parts = bags.by_part()
    whole, pieces = _labels(y, bags), _labels(part_y, parts)
    owner = bags.index[parts.offsets[:-1]]
    _check_agreement(bags, parts, whole, pieces, owner)
    alone = ~np.isnan(pieces)
    found = np.zeros(len(bags), dtype=bool)
    np.logical_or.at(found, owner, pieces == 1)
    rest = np.where((whole == 1) & found, np.nan, whole)
    unit = np.where(alone, len(bags) + np.arange(len(parts)), owner)
    shared = np.bincount(owner[alone], minlength=len(bags)) > 0
    remainders = [f"{name} (other parts)" if cut else name for name, cut in zip(bags.ids, shared, strict=True)]
    numbers, found_units = pd.factorize(unit)
    names = np.array([*remainders, *parts.ids], dtype=object)[found_units]
    keys = np.array(bags.ids if bags.group is None else bags.group, dtype=object)[owner]
    made = parts[np.argsort(numbers, kind="stable")].merged(np.sort(numbers), names)
    return TwoLevels(
        made.with_group(keys[np.unique(numbers, return_index=True)[1]]), np.concatenate([rest, pieces])[found_units]
    )


def _labels(y: Any, bags: Bags) -> Floats:
    return label(label_array(y, bags, keyed=True)).first


def _check_agreement(bags: Bags, parts: Bags, whole: Floats, pieces: Floats, owner: NDArray[Any]) -> None:
    above = np.flatnonzero((whole[owner] == 0) & (pieces == 1))
    if len(above):
        part = int(above[0])
        raise BagDataError(
            f"part {parts.ids[part]!r} is labelled 1, but its bag {bags.ids[owner[part]]!r} is labelled 0; a bag with "
            "a positive part is positive. Correct one of the two."
        )
    possible = np.zeros(len(bags), dtype=bool)
    np.logical_or.at(possible, owner, pieces != 0)
    empty = np.flatnonzero((whole == 1) & ~possible)
    if len(empty):
        raise BagDataError(
            f"bag {bags.ids[empty[0]]!r} is labelled 1, but all of its parts are labelled 0; correct one of them."
        )
