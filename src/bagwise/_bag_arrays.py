"""Bags as plain arrays for a file, and back, checked as closely as if they were new."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise._columns import Meta, checked_group, coded, decoded, starts_of_parts
from bagwise._matrices import check_not_empty, feature_matrix, stored_matrix
from bagwise._totals import check_totals, row_weights
from bagwise.exceptions import BagDataError

_SPARSE = ("data", "indices", "indptr", "shape")
_STORED = {
    "X",
    *_SPARSE,
    "offsets",
    "rows",
    "ids",
    "feature_names",
    "known",
    "weight",
    "group",
    "part_codes",
    "part_levels",
}


def is_stored(name: str) -> bool:
    """Whether an array of an archive is one of those that ``plain_arrays`` makes."""
    return name in _STORED or name.startswith("meta")


def plain_arrays(bags: Any, meta: Meta | None) -> dict[str, NDArray[Any]]:
    """Every array that ``bag_parts`` needs; text as levels and their numbers."""
    arrays: dict[str, Any] = {"offsets": bags.offsets, "rows": bags.rows, "ids": np.array(bags.ids, dtype=str)}
    if scipy.sparse.issparse(bags.X):
        arrays |= {name: np.asarray(getattr(bags.X, name)) for name in _SPARSE}
    else:
        arrays["X"] = bags.X
    for name in ("known", "weight"):
        if getattr(bags, name) is not None:
            arrays[name] = getattr(bags, name)
    for name in ("feature_names", "group"):
        if getattr(bags, name) is not None:
            arrays[name] = np.array(getattr(bags, name), dtype=str)
    arrays |= {} if bags.part is None else coded("part", bags.part)
    return arrays | ({} if meta is None else meta.to_arrays())


def bag_parts(stored: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The attributes of the bags in a file."""
    names = list(stored["feature_names"]) if "feature_names" in stored else None
    X, feature_names = feature_matrix(_matrix(stored), names)
    check_not_empty(X)
    ids, offsets, rows = check.texts(stored["ids"], "the id of a bag"), stored["offsets"], stored["rows"]
    check.check_layout(offsets, rows, len(ids), X.shape[0])
    weight = row_weights(stored.get("weight"), X.shape[0])
    check_totals(weight, offsets, ids)
    return {
        "X": X,
        "offsets": offsets,
        "ids": ids,
        "rows": rows,
        "feature_names": feature_names,
        "known": check.known_labels(stored.get("known"), X.shape[0]),
        "weight": weight,
        "part": _parts(stored, offsets),
        "meta": Meta.from_arrays(stored, X.shape[0]),
        "group": checked_group(stored["group"], len(ids)) if "group" in stored else None,
    }


def _parts(stored: Mapping[str, NDArray[Any]], offsets: NDArray[Any]) -> NDArray[Any] | None:
    """Keys of parts that stand together."""
    if "part_codes" not in stored:
        return None
    keys, layout = decoded("part", stored), offsets.astype(np.int64)
    bag = np.repeat(np.arange(len(layout) - 1), np.diff(layout))
    if keys.shape != bag.shape:
        raise BagDataError("part: expected one key per row")
    different = len(np.unique(np.stack([bag, stored["part_codes"]]), axis=1).T)
    if len(starts_of_parts(keys, layout)) - 1 != different:
        raise BagDataError("the rows of a part do not stand together")
    return keys


def _matrix(stored: Mapping[str, NDArray[Any]]) -> Any:
    return stored["X"] if "X" in stored else stored_matrix(*(stored[name] for name in _SPARSE))
