"""Bags whose rows stay where they are: in files, or in any object that rows can be read from."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise import _columns as columns
from bagwise import _validation as check
from bagwise._joined_bags import bag_ids_of
from bagwise._long_tables import NamedColumns, side_by_side
from bagwise.exceptions import BagDataError
from bagwise.sources.opening import Wanted, open_bags, stored
from bagwise.sources.rows import RowSource, StoredRows

Ints = NDArray[np.int64]


def opened_bags(
    cls: type[Any], path: Any, named: NamedColumns, *, features: list[str] | None, known: Any, ignore: list[str]
) -> Any:
    """The bags of a file, with labels where columns of labels are named. See ``Bags.open``."""
    labels, instances = _several(named.label), _several(named.instance_label)
    groups, parts = _several(named.group), _several(named.part)
    per_row = [*instances, *parts, *named.meta]
    found = open_bags(path, Wanted(named.bag, features, [*labels, *groups], per_row, known, ignore))
    of_bags, of_rows = iter(found.labels), iter(found.instance_labels)
    y, instance_y = [next(of_bags) for _ in labels], [next(of_rows) for _ in instances]
    part = next(of_rows) if parts else None
    meta = dict(zip(named.meta, of_rows, strict=True))
    bags = _in_order(
        cls, found.X, found.offsets, found.ids, found.feature_names, known=found.known, part=part, meta=meta
    )
    bags = bags.with_group(next(of_bags)) if groups else bags
    if not labels and not instances:
        return bags
    columns_of_y = side_by_side(y, single=not isinstance(named.label, list | tuple)) if labels else None
    if not instances:
        return bags, columns_of_y
    return bags, columns_of_y, side_by_side(instance_y, single=not isinstance(named.instance_label, list | tuple))


def bags_of_source(
    cls: type[Any],
    source: RowSource,
    sizes: Any,
    ids: Iterable[Any] | None,
    names: tuple[str, ...] | None,
    *,
    known: Any,
    part: Any,
    meta: Any,
) -> Any:
    """Bags whose rows come from an object, bag after bag. See ``Bags.from_source``."""
    counts = np.asarray(sizes, dtype=np.int64)
    if counts.ndim != 1 or len(counts) == 0 or (counts < 1).any():
        raise BagDataError("sizes: expected the number of instances of every bag, at least 1 each.")
    bag_ids = bag_ids_of(ids, len(counts))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    X = stored(source, bag_ids, offsets, names)
    return _in_order(cls, X, offsets, bag_ids, names, known=known, part=part, meta=meta)


def _in_order(
    cls: type[Any],
    X: StoredRows,
    offsets: Ints,
    ids: tuple[str, ...],
    names: tuple[str, ...] | None,
    *,
    known: Any,
    part: Any,
    meta: Any,
) -> Any:
    """Bags of rows that cannot be moved, so everything beside them has to be in their order."""
    n_rows = int(offsets[-1])
    return cls._of(
        X=X,
        offsets=offsets,
        ids=ids,
        rows=None,
        feature_names=names,
        known=check.known_labels(known, n_rows),
        part=columns.parts_in_order(part, offsets, ids),
        meta=columns.Meta.read(meta, n_rows),
    )


def _several(given: Any) -> list[Any]:
    """Names or arrays, one of them or a list."""
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
