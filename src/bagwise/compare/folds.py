"""Folds that never cut a group, and one's own bags as a data set that every process of a comparison can read."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from bagwise._archives import opened_archive
from bagwise._files import write_whole
from bagwise._validation import check_count, levels
from bagwise.bags import Bags
from bagwise.bench.description import Floats, Part, Place, Split
from bagwise.exceptions import BagDataError

Ints = NDArray[np.int64]
_BAGS, _EVIDENCE = "bags.npz", "evidence.npz"


# ---------------------------------------------------------------- folds


def draw_folds(y: Floats, groups: Ints | None, folds: int, repeats: int, seed: int, *, stratify: bool) -> Ints:
    """(repeats, B) the fold in which each bag is tested; all bags of a group are in one fold.

    With ``stratify``, ``y`` is a label of 0 and 1, and every fold gets about its share of both.
    """
    n_folds = check_count("folds", folds, least=2)
    _check_enough_bags(len(y), groups, n_folds)
    if stratify:
        _check_enough_of_both(y, groups, n_folds)
    rounds = range(check_count("repeats", repeats))
    return np.stack([_folds_of_repeat(y, groups, n_folds, seed + number, stratify) for number in rounds])


def _folds_of_repeat(y: Floats, groups: Ints | None, n_folds: int, seed: int, stratify: bool) -> Ints:
    splitters = {(False, False): KFold, (False, True): GroupKFold}
    splitters |= {(True, False): StratifiedKFold, (True, True): StratifiedGroupKFold}
    splitter = splitters[stratify, groups is not None](n_folds, shuffle=True, random_state=seed)
    fold = np.empty(len(y), dtype=np.int64)
    for number, (_, test) in enumerate(splitter.split(y, y, groups)):
        fold[test] = number
    return fold


def _check_enough_bags(n_bags: int, groups: Ints | None, folds: int) -> None:
    there, what = (n_bags, "bags") if groups is None else (len(np.unique(groups)), "groups")
    if there < folds:
        raise BagDataError(f"--folds {folds}: there are only {there} {what} with evidence; choose fewer folds.")


def _check_enough_of_both(y: Floats, groups: Ints | None, folds: int) -> None:
    """Every class must be there in as many bags (or groups) as there are folds, or some fold could not be measured."""
    for value in (0.0, 1.0):
        members = np.flatnonzero(y == value)
        there = len(members) if groups is None else len(np.unique(groups[members]))
        if there < folds:
            what = "bags" if groups is None else "groups"
            raise BagDataError(
                f"--folds {folds}: only {there} {what} hold a bag that is {'positive' if value else 'negative'}, and "
                f"every fold needs one; choose at most --folds {max(there, 2)}{_or_label_more(there)}."
            )


def _or_label_more(there: int) -> str:
    return "" if there >= 2 else " and label more bags first"


def groups_of_bags(values: Any, bags: Bags) -> Ints:
    """The number of the group of every bag, from one value per instance (in the order of ``bags.X``) or per bag."""
    given = np.asarray(values)
    if given.ndim != 1 or len(given) not in (len(bags), bags.n_instances):
        raise BagDataError(
            f"groups: expected one entry per bag ({len(bags)}) or per instance ({bags.n_instances}), got shape "
            f"{given.shape}."
        )
    codes = levels(given, "groups")[0].astype(np.int64)
    owner = np.arange(len(bags)) if len(given) == len(bags) else bags.index
    _check_groups(codes, owner, given, bags)
    return codes[np.searchsorted(owner, np.arange(len(bags)))]


def _check_groups(codes: Ints, owner: Ints, given: NDArray[Any], bags: Bags) -> None:
    if (codes < 0).any():
        bag = bags.ids[owner[int(np.argmax(codes < 0))]]
        raise BagDataError(f"bag {bag!r}: its group is missing; every bag must belong to a group.")
    first = np.searchsorted(owner, owner)
    other = np.flatnonzero(codes != codes[first])
    if len(other):
        row = int(other[0])
        raise BagDataError(
            f"bag {bags.ids[owner[row]]!r} belongs to two groups, {str(given[first[row]])!r} and {str(given[row])!r}; "
            "a group is made of whole bags."
        )


# ---------------------------------------------------------------- the data set


@dataclass(frozen=True, eq=False)
class OwnData:
    """Bags that state something, what they state, the truth about their instances (or None), and their folds."""

    bags: Bags
    y: Floats
    instance_y: Floats | None
    folds: Ints  # (repeats, B)

    @property
    def digest(self) -> str:
        """Changes with anything that decides a result."""
        found = hashlib.sha256()
        rows = self.bags.X
        parts = (rows.data, rows.indices, rows.indptr) if scipy.sparse.issparse(rows) else (rows,)
        for array in (*parts, self.bags.offsets, self.bags.known, self.y, self.instance_y, self.folds):
            found.update(b"none" if array is None else f"{array.shape}{array.dtype}".encode())
            found.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:16]

    @contextmanager
    def lying_in(self, folder: Path) -> Iterator[None]:
        """The data as files that every process can read; they are removed at the end."""
        arrays: dict[str, Any] = {"y": self.y, "folds": self.folds}
        arrays |= {} if self.instance_y is None else {"instance_y": self.instance_y}
        try:
            self.bags.save(folder / _BAGS)
            write_whole(folder / _EVIDENCE, lambda stream: np.savez_compressed(stream, **arrays))
            yield
        finally:
            for name in (_BAGS, _EVIDENCE):
                (folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class OwnFolds:
    """The rule of a comparison: folds as they were drawn. ``kind`` is the evidence, ``folds`` their number."""

    kind: str
    folds: int

    def split(self, place: Place) -> Split:
        """Training bags with their evidence, test bags with theirs and the labels of their instances."""
        data = _read(place.folder)
        is_test = data.folds[place.repeat] == place.fold
        rows = is_test[data.bags.index]
        truth = None if data.instance_y is None else data.instance_y[rows]
        part = Part(data.bags[is_test], place.data.row_names, data.y[is_test], truth)
        return Split({self.kind: (data.bags[~is_test], data.y[~is_test])}, (part,))


def _read(folder: Path) -> OwnData:
    with opened_archive(folder / _EVIDENCE, "cannot be read as an .npz archive") as arrays:
        found = {name: arrays[name] for name in arrays}
    return OwnData(Bags.load(folder / _BAGS), found["y"], found.get("instance_y"), found["folds"])
