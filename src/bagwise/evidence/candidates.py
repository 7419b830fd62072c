"""Candidate label sets of bags: tables of 0/1, sets of names or plain classes in, one truth table out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bagwise._validation import check_hashable, shorten
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError

NONE_OF_THEM = "none of them"  # the class that is added, where classes have names


@dataclass(frozen=True)
class CandidateSets:
    """Which classes each bag may have."""

    table: NDArray[np.bool_]  # (B, q); a row of False where the bag states nothing
    observed: NDArray[np.bool_]  # (B,)
    classes: NDArray[Any]  # (q,)


def read_candidates(y: Any, bags: Bags, *, keyed: bool) -> CandidateSets:
    """Candidate sets of the bags, refused where nothing could be learned from them.

    ``y`` is a (B, q) table of 0/1 (a frame's columns name the classes, a row of NaN states nothing), one set of class
    names per bag (None states nothing), or one class per bag: a set of one. ``keyed``: frames, Series and dicts are
    read by bag id.
    """
    sets = candidate_sets(y, bags, keyed=keyed)
    refuse_useless(sets, bags)
    return sets


def candidate_sets(y: Any, bags: Bags, *, keyed: bool, classes: NDArray[Any] | None = None) -> CandidateSets:
    """As ``read_candidates``, without asking whether anything could be learned.

    With ``classes`` (those of a fitted model) a table must have one column for each, names must be among them.
    """
    names = np.array([*map(str, y.columns)]) if isinstance(y, pd.DataFrame) else None
    entries = _in_order(y, bags, keyed)
    if isinstance(entries, np.ndarray) and entries.ndim == 2 and entries.shape[1] > 1:
        return _from_table(entries, bags, names if classes is None else classes)
    if any(isinstance(entry, set | frozenset | list | tuple) for entry in entries):
        return _from_sets(entries, bags, classes)
    return _from_classes(np.asarray(entries), classes)


def none_value(classes: NDArray[Any]) -> Any:
    """What an instance of none of the classes is called: "none of them", or one more than the largest number."""
    if classes.dtype.kind in "iuf":
        return classes.max() + 1
    if NONE_OF_THEM in set(classes.tolist()):
        raise BagDataError(
            f"a class is called {NONE_OF_THEM!r}, which is the name of the class that is added for instances of no "
            "candidate class; rename it."
        )
    return NONE_OF_THEM


def with_none(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes and, last, the name of none of them."""
    extra = none_value(classes)
    if classes.dtype.kind in "iuf":
        return np.append(classes, np.array([extra], dtype=classes.dtype))
    return np.array([*classes.tolist(), extra], dtype=object if classes.dtype.kind != "U" else None)


# ---------------------------------------------------------------- forms of y


def _in_order(y: Any, bags: Bags, keyed: bool) -> Any:
    """One entry per bag, in their order: a list of sets, or an array (B,) or (B, q)."""
    if y is None:
        raise BagDataError("requires y to be passed, but the target y is None: give one candidate set per bag.")
    if isinstance(y, Mapping) or (keyed and isinstance(y, pd.Series | pd.DataFrame)):
        y = bags.align(y)
    listed = isinstance(y, list | tuple) or (str(getattr(y, "dtype", "")) == "object" and y.ndim == 1)
    entries: Any
    entries = list(y) if listed and _holds_sets(y) else _as_array(list(y) if _holds_rows(y) else y)
    if len(entries) != len(bags):
        raise BagDataError(
            f"y has {len(entries)} entries, but there are {len(bags)} bags; give one candidate set per bag "
            "in the order of bags.ids (None, or a row of NaN, where nothing is known)."
        )
    return entries


def _holds_sets(y: Any) -> bool:
    """Whether a list is one of sets of names, rather than the rows of a table."""
    return any(
        isinstance(entry, set | frozenset)
        or (isinstance(entry, list | tuple) and (not entry or any(isinstance(name, str) for name in entry)))
        for entry in y
    )


def _holds_rows(y: Any) -> bool:
    """Whether an array has the rows of a table for its entries, as the values of a dict come."""
    rows = isinstance(y, np.ndarray) and y.dtype.kind == "O" and y.ndim == 1 and len(y) > 0
    return rows and all(isinstance(row, np.ndarray | list | tuple) for row in y)


def _as_array(y: Any) -> NDArray[Any]:
    try:
        array = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    except ValueError as error:
        raise BagDataError(
            f"y: expected a (B, q) table of 0/1, or one set of class names per bag, such as [{{'a', 'b'}}, {{'c'}}] "
            f"({error})."
        ) from None
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise BagDataError(f"y: expected candidate sets of shape (B, q), or (B,), got shape {array.shape}.")
    return column_or_1d(array, warn=True) if array.shape[1:] == (1,) else array


def _from_table(array: NDArray[Any], bags: Bags, classes: NDArray[Any] | None) -> CandidateSets:
    named = np.arange(array.shape[1]) if classes is None else classes
    if len(named) != array.shape[1]:
        raise BagDataError(f"y has {array.shape[1]} columns; the model was fitted with {len(named)} classes.")
    observed: NDArray[np.bool_] = ~np.all(pd.isna(array), axis=1)
    values = pd.DataFrame(array).apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~((values == 0) | (values == 1)) & observed[:, None]
    if wrong.any():
        row, column = (int(number) for number in np.argwhere(wrong)[0])
        entry = array[row].tolist()[column]
        raise BagDataError(
            f"{_TABLE_RULE}; {'found text: ' if isinstance(entry, str) else ''}bag {bags.ids[row]!r}, column "
            f"{named.tolist()[column]!r} holds {entry!r}. Unknown label type: for class names or numbers give one "
            "set of them per bag."
        )
    return CandidateSets(values == 1, observed, named)


_TABLE_RULE = "y as a table of candidates must hold 0 and 1 only (a row of NaN where nothing is known)"


def _from_sets(entries: Any, bags: Bags, classes: NDArray[Any] | None) -> CandidateSets:
    listed = [_names_of(entry, bag) for entry, bag in zip(entries, bags.ids, strict=True)]
    found = {name for names in listed if names is not None for name in names}
    known = _sorted_classes(found) if classes is None else classes
    place = {name: number for number, name in enumerate(known.tolist())}
    table = np.zeros((len(listed), len(known)), dtype=bool)
    for bag, names in enumerate(listed):
        for name in names or ():
            if name not in place:
                raise BagDataError(_unknown_class(name, known, f"bag {bags.ids[bag]!r}: "))
            table[bag, place[name]] = True
    return CandidateSets(table, np.array([names is not None for names in listed]), known)


def _names_of(entry: Any, bag: str) -> list[Any] | None:
    """The candidates of one bag; a single class is a set of one, None or NaN is nothing."""
    if isinstance(entry, set | frozenset | list | tuple | np.ndarray):
        check_hashable(entry, f"the candidates of bag {bag!r}")
        if any(part is None or part != part for part in entry):
            raise BagDataError(f"bag {bag!r}: a candidate is missing (None or NaN) inside its set; leave it out.")
        return list(entry)
    return None if entry is None or entry != entry else [entry]


def _sorted_classes(found: set[Any]) -> NDArray[Any]:
    try:
        return np.array(sorted(found))
    except TypeError:
        raise BagDataError(
            f"the class names {shorten(found)} mix text and numbers, which have no order; use one kind."
        ) from None


def _from_classes(array: NDArray[Any], classes: NDArray[Any] | None) -> CandidateSets:
    observed = ~pd.isna(array)
    seen = np.array(array[observed].tolist()) if array.dtype.kind == "O" else array[observed]
    if seen.dtype.kind == "f" and np.isinf(seen).any():
        raise BagDataError("Input y contains infinity or a value too large for dtype('float64').")
    try:
        check_classification_targets(seen) if len(seen) else None
    except (ValueError, TypeError) as error:
        raise BagDataError(f"y: {error} Expected one class, or one set of candidate classes, per bag.") from None
    known = np.unique(seen) if classes is None else classes
    strange = sorted(set(seen.tolist()) - set(known.tolist()), key=str)
    if strange:
        raise BagDataError(_unknown_class(strange[0], known))
    table = np.zeros((len(array), len(known)), dtype=bool)
    table[observed] = seen[:, None] == known
    return CandidateSets(table, observed, known)


def _unknown_class(name: Any, known: NDArray[Any], where: str = "") -> str:
    return f"{where}y holds {name!r}; the model was fitted with the classes {shorten(known)}."


# ---------------------------------------------------------------- sense


def refuse_useless(sets: CandidateSets, bags: Bags) -> None:
    """An error where nothing could be learned from the sets, or about one of the classes."""
    if not sets.observed.any():
        raise BagDataError("Input y contains NaN only: no bag has a candidate class to learn from.")
    empty = np.flatnonzero(sets.observed & ~sets.table.any(axis=1))
    if len(empty):
        raise BagDataError(
            f"bag {bags.ids[empty[0]]!r} has no candidate class ({len(empty)} such bag(s)); every bag belongs to one "
            "of its candidates. Where nothing is known give None, or a row of NaN."
        )
    table = sets.table[sets.observed]
    never = sets.classes[~table.any(axis=0)]
    if len(never):
        raise BagDataError(
            f"class {shorten(never)} is never a candidate, so nothing can be learned about it; leave its column out."
        )
    if table.all():
        count = len(sets.classes)
        raise BagDataError(
            f"every class ({count} class{'es' if count > 1 else ''}: {shorten(sets.classes)}) is a candidate of every "
            "bag, so nothing tells the classes apart and nothing can be learned. A candidate set must leave something "
            "out in some bag."
        )
