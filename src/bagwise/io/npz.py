"""Bags as a NumPy archive: ``X``, ``bag``, ``y`` or ``candidates``, ``instance_y``.

===============  ==================================================================================================
``X``            (N, D) features, taken as they are; or ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix
``bag``          (N,) number of the bag of each row, 0 … B-1; or any text keys
``y``            (B,) or (B, C), entry b belongs to bag number b (text keys: in order of first appearance)
``candidates``   (B, q) candidate label sets, used where there is no ``y``
``instance_y``   (N,) or (N, C) instance labels for evaluation only, -1 unknown
``known``        (N,) instance labels that are evidence, 0, 1, -1 unknown, under any name; taken only where asked for
``bag_name``     (B,) names of the numbered bags (optional)
``columns``      (D,) names of the features (optional)
parts            (N,) key of the part of each row, under any name; taken only where asked for, as are …
groups           (B,) or (N,) what no split may tear apart, and metadata, (N,) arrays that describe the rows
===============  ==================================================================================================
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise._archives import opened_archive
from bagwise._files import PathLike, write_whole
from bagwise._matrices import stored_matrix
from bagwise._validation import known_labels, label_of_bags, shorten
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError

Arrays = Mapping[str, NDArray[Any]]
_SPARSE = ("data", "indices", "indptr", "shape")
_COMPLAINT = "cannot be read as an .npz archive of plain arrays"


def read_npz(path: PathLike, *, label: str | None = None) -> tuple[Bags, NDArray[Any] | None, NDArray[Any] | None]:
    """Read ``(bags, y, instance_y)``; what the archive does not hold is None. Never unpickles.

    ``label`` names the array of bag labels; by default ``y``, and ``candidates`` where there is no ``y``. Unknown
    instance labels (-1) come back as NaN.
    """
    found = read_archive(path, () if label is None else (label,))
    return found.bags, found.y, found.instance_y


class Described(NamedTuple):
    """Names of arrays that say more of the bags than their key; ``optional`` ones need not be there."""

    part: str | None = None  # below the bags
    group: str | None = None  # above the bags
    meta: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()

    def within(self, arrays: Arrays) -> "Described":
        """The same without optional arrays that are not there."""
        gone = self.optional - set(arrays)
        part, group = (None if name in gone else name for name in (self.part, self.group))
        return Described(part, group, tuple(name for name in self.meta if name not in gone))


class Archive(NamedTuple):
    """What an archive holds; None for what it does not."""

    bags: Bags
    y: NDArray[Any] | None
    instance_y: NDArray[np.float64] | None
    names: list[str]  # of the columns of y


def read_archive(
    path: PathLike,
    labels: Sequence[str] = (),
    known: str | None = None,
    weight: str | None = None,
    *,
    described: Described | None = None,
    may_be_absent: bool = False,
) -> Archive:
    """Read an archive whose bag arrays have names of their own.

    ``labels`` names one array, (B,) or (B, K), or several of shape (B,), which become the columns of ``y``. ``known``
    names the array of instance labels that are evidence: they go into ``bags.known``. What is named but not there is
    an error, unless it ``may_be_absent``. ``weight`` names the array of the individuals that a row stands for, and
    ``described`` those of parts, groups and metadata.
    """
    with opened_archive(path, _COMPLAINT) as arrays:
        found = _read_archive(path, arrays, labels, known, described or Described(), may_be_absent)
        if weight is None:
            return found
        each = _per_instance(arrays, weight, found.bags.n_instances, path)
        return found._replace(bags=found.bags.with_weight(each[found.bags.rows]))


def _read_archive(
    path: PathLike,
    arrays: Arrays,
    labels: Sequence[str],
    known: str | None,
    described: Described,
    may_be_absent: bool,
) -> Archive:
    groups, order = _groups(arrays, path)
    bags = _bags(arrays, groups, path, described.within(arrays), order)
    if known is not None and (known in arrays or not may_be_absent):
        bags = known_in_order(bags, _per_instance(arrays, known, bags.n_instances, path), f"{path}: {known!r}")
    wanted = () if may_be_absent and not set(labels) <= set(arrays) else labels or _usual_labels(arrays)
    y = _side_by_side([_bag_labels(arrays, name, len(bags), order, path) for name in wanted], wanted, path)
    truth = _per_instance(arrays, "instance_y", bags.n_instances, path)[bags.rows] if "instance_y" in arrays else None
    names = list(wanted) if len(wanted) > 1 else [] if y is None else _label_names(arrays, y)
    return Archive(bags, y, truth, names)


def read_labelled_rows(path: PathLike) -> tuple[Any, NDArray[Any], list[str] | None]:
    """Features, classes and names of the features of rows, whatever their bags; rows of unknown class are left out.

    The class is ``instance_y``, and ``y`` where there is none: one number (-1 unknown) or text per row.
    """
    with opened_archive(path, _COMPLAINT) as arrays:
        return _read_labelled_rows(path, arrays)


def _read_labelled_rows(path: PathLike, arrays: Arrays) -> tuple[Any, NDArray[Any], list[str] | None]:
    X = _features(arrays, path)
    name = "instance_y" if "instance_y" in arrays else "y"
    classes = _with_length(_need(arrays, name, path), X.shape[0], f"{path}: {name!r}", "instance")
    if classes.ndim != 1:
        raise BagDataError(f"{path}: {name!r} must hold one class per instance, got shape {classes.shape}.")
    known = classes != -1 if classes.dtype.kind in "iuf" else np.ones(len(classes), dtype=bool)
    return X[known], classes[known], _feature_names(arrays, X)


def write_npz(path: PathLike, bags: Bags, y: Any = None, instance_y: Any = None) -> None:
    """Write bags, ``y`` (in the order of ``bags.ids``) and ``instance_y`` (in the order of ``bags.X``, NaN unknown)."""
    arrays: dict[str, Any] = {"bag": bags.index.astype(np.int32), "bag_name": np.array(bags.ids, dtype=str)}
    if scipy.sparse.issparse(bags.X):
        arrays |= {"data": bags.X.data, "indices": bags.X.indices, "indptr": bags.X.indptr}
        arrays["shape"] = np.array(bags.X.shape)
    else:
        arrays["X"] = bags.in_memory().X
    if bags.feature_names is not None:
        arrays["columns"] = np.array(bags.feature_names, dtype=str)
    if y is not None:
        arrays["y"] = _plain(_with_length(y, len(bags), "y", "bag"), "y")
    if instance_y is not None:
        truth = _with_length(instance_y, bags.n_instances, "instance_y", "instance")
        arrays["instance_y"] = _unknown_as_minus_one(truth)
    write_whole(path, lambda stream: np.savez_compressed(stream, **arrays))


def _label_names(arrays: Arrays, y: NDArray[Any]) -> list[str]:
    """Names of the columns of ``y``: the archive's ``class_names`` where they fit, else "y" or "y_0", "y_1", …"""
    if y.ndim == 1:
        return ["y"]
    names = arrays.get("class_names")
    if names is not None and names.shape == (y.shape[1],):
        return [str(name) for name in names]
    return unnamed_columns(y.shape[1])


def unnamed_columns(count: int) -> list[str]:
    """What the columns of a table are called where nothing names them."""
    return [f"y_{number}" for number in range(count)]


def _need(arrays: Arrays, name: str, path: PathLike) -> NDArray[Any]:
    if name not in arrays:
        raise BagDataError(f"{path}: the archive has no array {name!r}; it holds {shorten(arrays, 12)}.")
    return arrays[name]


def _groups(arrays: Arrays, path: PathLike) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """The key of every row, and, for numbered bags, their numbers by first appearance."""
    keys = _need(arrays, "bag", path)
    if keys.ndim != 1 or keys.dtype.kind not in "iuU":
        raise BagDataError(
            f"{path}: 'bag' must hold one whole number or text per row, got {keys.dtype} of shape {keys.shape}."
        )
    if keys.dtype.kind == "U":
        return keys, None
    numbers, first = np.unique(keys, return_index=True)
    if not np.array_equal(numbers, np.arange(len(numbers))):
        gap = int(np.flatnonzero(numbers != np.arange(len(numbers)))[0])
        raise BagDataError(f"{path}: bags must be numbered 0 to B-1 without a gap, but there is no bag {gap} in 'bag'.")
    return keys.astype(np.int64), numbers[np.argsort(first)].astype(np.int64)


def _bags(
    arrays: Arrays, groups: NDArray[Any], path: PathLike, described: Described, order: NDArray[np.int64] | None
) -> Bags:
    X = _features(arrays, path)
    keys = _named(groups, arrays.get("bag_name"), path)
    part = None if described.part is None else _need(arrays, described.part, path)
    meta = {name: _need(arrays, name, path) for name in described.meta} or None
    try:
        bags = Bags(X, keys, feature_names=_feature_names(arrays, X), part=part, meta=meta)
        return (
            bags if described.group is None else bags.with_group(_group_of(arrays, described.group, bags, order, path))
        )
    except BagDataError as error:
        raise BagDataError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def _group_of(arrays: Arrays, name: str, bags: Bags, order: NDArray[np.int64] | None, path: PathLike) -> NDArray[Any]:
    """What stands above every bag, from an entry per bag or per row."""
    values = _need(arrays, name, path)
    if values.shape == (bags.n_instances,):
        return label_of_bags(pd.Series(values[bags.rows], name=name), bags.index, bags.ids)
    return _bag_labels(arrays, name, len(bags), order, path)


def _feature_names(arrays: Arrays, X: Any) -> list[str] | None:
    names = arrays.get("columns")
    if names is None or names.ndim != 1 or names.shape != X.shape[1:]:
        return None
    return [str(name) for name in names]


def _named(groups: NDArray[Any], names: NDArray[Any] | None, path: PathLike) -> NDArray[Any]:
    """The names of numbered bags in place of their numbers."""
    if names is None or groups.dtype.kind == "U":
        return groups
    checked = _with_length(names, int(groups.max(initial=-1)) + 1, f"{path}: 'bag_name'", "bag")
    if len(np.unique(checked)) < len(checked):
        raise BagDataError(f"{path}: 'bag_name' names two bags alike; every bag needs its own name.")
    named: NDArray[Any] = checked[groups]
    return named


def _features(arrays: Arrays, path: PathLike) -> Any:
    if "X" in arrays or not all(name in arrays for name in _SPARSE):
        return _need(arrays, "X", path)
    try:
        return stored_matrix(*(arrays[name] for name in _SPARSE))
    except BagDataError as error:
        raise BagDataError(f"{path}: {', '.join(_SPARSE)} do not form a sparse matrix ({error}).") from error


def _usual_labels(arrays: Arrays) -> tuple[str, ...]:
    return tuple(name for name in ("y", "candidates") if name in arrays)[:1]


def _bag_labels(
    arrays: Arrays, name: str, n_bags: int, order: NDArray[np.int64] | None, path: PathLike
) -> NDArray[Any]:
    y = _with_length(_need(arrays, name, path), n_bags, f"{path}: {name!r}", "bag")
    if y.dtype.kind not in "biufU":
        raise BagDataError(f"{path}: {name!r} must hold numbers or text, got {y.dtype}.")
    return y if order is None else y[order]


def _side_by_side(columns: list[NDArray[Any]], names: Sequence[str], path: PathLike) -> NDArray[Any] | None:
    if len(columns) <= 1:
        return columns[0] if columns else None
    if any(column.ndim != 1 for column in columns):
        raise BagDataError(f"{path}: the arrays {shorten(names)} must each hold one entry per bag, shape (B,).")
    return np.stack(columns, axis=1)


def known_in_order(bags: Bags, values: Any, where: str) -> Bags:
    """Bags that know some of their instances, from 0, 1 and NaN in the order of the file."""
    try:
        checked = known_labels(values, bags.n_instances)
    except BagDataError as error:
        raise BagDataError(f"{where}: {error}") from None
    return bags if checked is None else bags.with_known(checked[bags.rows])


def _per_instance(arrays: Arrays, name: str, length: int, path: PathLike) -> NDArray[np.float64]:
    values = _with_length(_need(arrays, name, path), length, f"{path}: {name!r}", "instance")
    if values.dtype.kind not in "iufb":
        raise BagDataError(f"{path}: {name!r} must hold numbers (-1 where unknown), got {values.dtype}.")
    return np.where(values == -1, np.nan, values.astype(np.float64))


def _with_length(values: Any, length: int, name: str, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim not in (1, 2) or len(array) != length or 0 in array.shape[1:]:
        raise BagDataError(f"{name}: expected one entry per {what} ({length}), got shape {array.shape}.")
    return array


def _plain(array: NDArray[Any], name: str) -> NDArray[Any]:
    """An array that can be stored without pickling: numbers as numbers, text as text."""
    if array.dtype.kind != "O":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        if all(isinstance(value, str) for value in array.flat):
            return array.astype(np.str_)
    raise BagDataError(
        f"{name}: an .npz archive keeps numbers (NaN where missing) or text without gaps; "
        "encode the classes as numbers."
    )


def _unknown_as_minus_one(values: NDArray[Any]) -> NDArray[Any]:
    numbers = _plain(values, "instance_y")
    if numbers.dtype.kind not in "iufb":
        raise BagDataError(f"instance_y: an .npz archive holds numbers here, got {numbers.dtype}; encode the classes.")
    return np.where(np.isnan(numbers), -1, numbers) if numbers.dtype.kind == "f" else numbers
