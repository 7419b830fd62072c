"""Several tables as one: arrays in a list, bags after bags."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from bagwise import _columns as columns
from bagwise import _validation as check
from bagwise._matrices import check_same_columns, feature_matrix, stacked_rows
from bagwise._totals import joined_weights
from bagwise.exceptions import BagDataError

NO_BAGS = "there are no bags: the list is empty (0 sample(s)), while a minimum of 1 is required."


def bags_of_list(cls: type[Any], arrays: Iterable[Any], ids: Iterable[Any] | None) -> Any:
    """One bag per 2-D array."""
    listed = list(arrays)
    if not listed:
        raise BagDataError(NO_BAGS)
    bag_ids = bag_ids_of(ids, len(listed))
    checked = [_bag_matrix(array, bag) for array, bag in zip(listed, bag_ids, strict=True)]
    check_same_columns(checked, bag_ids)
    matrices = [matrix for matrix, _ in checked]
    groups = np.repeat(np.array(bag_ids, dtype=object), [matrix.shape[0] for matrix in matrices])
    return cls(stacked_rows(matrices), groups, feature_names=checked[0][1])


def bag_ids_of(ids: Iterable[Any] | None, n_bags: int) -> tuple[str, ...]:
    """One id per bag; "0", "1", … if none are given."""
    bag_ids = tuple(map(str, range(n_bags))) if ids is None else check.unique_ids(ids)
    if len(bag_ids) != n_bags:
        raise BagDataError(f"ids: expected one id per bag ({n_bags}), got {len(bag_ids)}.")
    return bag_ids


def joined_bags(cls: type[Any], parts: Iterable[Any]) -> Any:
    """The bags of several, one after the other."""
    listed = list(parts)
    if not listed:
        raise BagDataError(NO_BAGS)
    check_same_columns([(bags.X, bags.feature_names) for bags in listed], [bags.ids[0] for bags in listed])
    ids = check.unique_ids(name for bags in listed for name in bags.ids)
    groups = np.repeat(np.array(ids, dtype=object), np.concatenate([bags.sizes for bags in listed]))
    lengths = [bags.n_instances for bags in listed]
    joined = cls(
        stacked_rows([bags.X for bags in listed]),
        groups,
        feature_names=listed[0].feature_names,
        known=columns.joined([bags.known for bags in listed], lengths),
        part=columns.joined_parts([bags.part for bags in listed]),
        meta=columns.joined_meta([bags._meta for bags in listed]),
        weight=joined_weights([bags.weight for bags in listed], lengths),
    )
    if all(bags.group is None for bags in listed):
        return joined
    return joined.with_group(key for bags in listed for key in bags.group or bags.ids)


def _bag_matrix(array: Any, bag: str) -> tuple[Any, tuple[str, ...] | None]:
    try:
        matrix, names = feature_matrix(array)
    except BagDataError as error:
        raise BagDataError(f"bag {bag!r}: {error}") from None
    if matrix.shape[0] == 0:
        raise BagDataError(f"bag {bag!r} is empty; every bag needs at least one instance.")
    return matrix, names
