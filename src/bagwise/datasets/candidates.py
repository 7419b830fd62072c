"""Bags with candidate sets, dealt from instances whose class is known."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from bagwise._matrices import feature_matrix
from bagwise._validation import check_count, check_flag, random_stream, shorten
from bagwise.bags import Bags
from bagwise.datasets.dealing import DIGIT_FEATURES, Ints, Random, Range, bag_names, draw_range
from bagwise.exceptions import BagDataError
from bagwise.io.npz import read_labelled_rows


class CandidateBags(NamedTuple):
    """Bags, what is known of them and what is true; classes are columns of the table."""

    bags: Bags
    candidates: Ints  # (B, q) of 0/1
    y: Ints  # (B,)
    instance_y: Ints  # (N,), q for none of them


def make_candidate_bags(
    data: Any = "digits",
    targets: Sequence[Any] | None = None,
    n_bags: int = 100,
    bag_size: Range = (6, 10),
    *,
    n_false: int = 1,
    positive_share: float = 0.2,
    replace: bool = False,
    random_state: Random = None,
) -> CandidateBags:
    """Bags of which a set of candidate classes is known: the true one and ``n_false`` others.

    Every bag belongs to one of the ``targets``, all of them equally often; a share of its instances is of that class,
    the others are of classes that are no target.

    Parameters
    ----------
    data : "digits" (scikit-learn's 8 × 8 images); the path of an .npz archive with ``X`` and ``instance_y`` or ``y`` of
        every row (-1 unknown: left out); or a pair (X, y) of rows and their classes (missing: left out)
    targets : the classes a bag may have, q of them; None takes the first, the third, … of all classes
    bag_size : instances per bag, a number or a range (lowest, highest)
    n_false : false candidates of every bag, drawn evenly; at most q - 2, or every class would be a candidate
    positive_share : of a bag's instances, rounded to whole ones, at least one
    replace : whether a row may be used more than once, in one bag or in several

    Returns
    -------
    bags, candidates, y, instance_y : candidate sets of 0/1, (B, q), in the order of ``targets``; true class of every
        bag as a column of them; the class of every instance likewise, q for none of them
    """
    X, classes, names = _labelled_rows(data)
    wanted = _targets(targets, classes)
    q = len(wanted)
    if check_count("n_false", n_false, least=0) > q - 2:
        raise BagDataError(f"n_false={n_false}: with {q} target classes at most {q - 2} can be false, or all would be.")
    random = random_stream(random_state)
    sizes = draw_range("bag_size", bag_size, check_count("n_bags", n_bags), random)
    y = random.permutation(np.arange(n_bags) % q)
    truth = _instance_classes(sizes, y, _share(positive_share), q, random)
    rows = _rows(truth, _places(classes, wanted), [*wanted, "no target"], check_flag("replace", replace), random)
    ids = np.repeat(bag_names(n_bags), sizes)
    bags = Bags(X[rows], ids, feature_names=names)
    return CandidateBags(bags, _candidates(y, q, n_false, random), y, truth)


def _labelled_rows(data: Any) -> tuple[Any, NDArray[Any], list[str] | None]:
    """Rows, their classes and the names of the features."""
    if isinstance(data, str) and data == "digits":
        digits = load_digits()
        return digits.data, digits.target, DIGIT_FEATURES
    if isinstance(data, str | os.PathLike):
        return read_labelled_rows(data)
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BagDataError(
            f"data: expected 'digits', the path of an .npz archive, or a pair (X, y), got {type(data).__name__}."
        )
    X, names = feature_matrix(data[0])
    classes = np.asarray(data[1])
    if classes.shape != (X.shape[0],):
        raise BagDataError(f"data: X has {X.shape[0]} rows, so y must hold {X.shape[0]} classes, got {classes.shape}.")
    known = ~pd.isna(classes)
    return X[known], np.array(classes[known].tolist()), None if names is None else list(names)


def _targets(targets: Sequence[Any] | None, classes: NDArray[Any]) -> list[Any]:
    found = np.unique(classes).tolist()
    wanted = found[::2] if targets is None else np.asarray(targets).tolist()
    strange = [name for name in wanted if name not in found]
    if strange:
        raise BagDataError(
            f"targets: there is no instance of class {shorten(strange)}; there are {shorten(found, 12)}."
        )
    if len(set(wanted)) < len(wanted) or len(wanted) < 2:
        raise BagDataError(f"targets={shorten(wanted)}: expected at least two classes, each once.")
    return list(wanted)


def _share(positive_share: Any) -> float:
    if not 0.0 < positive_share <= 1.0:
        raise BagDataError(f"positive_share={positive_share!r}: expected a share above 0, up to 1.")
    return float(positive_share)


def _places(classes: NDArray[Any], targets: list[Any]) -> Ints:
    """The place of every row's class among the targets, their number for the others."""
    place = {name: number for number, name in enumerate(targets)}
    return np.array([place.get(name, len(targets)) for name in classes.tolist()], dtype=np.int64)


def _instance_classes(sizes: Ints, y: Ints, share: float, q: int, random: Any) -> Ints:
    """Classes in the bags, those of the bag's own class at random places."""
    n_positive = np.maximum(1, np.round(share * sizes)).astype(np.int64)
    index = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = np.lexsort([random.random_sample(len(index)), index])
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    positive = (np.arange(len(index)) - first < n_positive[index])[shuffled]
    return np.where(positive, y[index], q)


def _rows(truth: Ints, places: Ints, names: list[Any], replace: bool, random: Any) -> Ints:
    """A row of the right class for every instance."""
    rows = np.empty(len(truth), dtype=np.int64)
    for place, name in enumerate(names):
        wanted, there = np.flatnonzero(truth == place), np.flatnonzero(places == place)
        if len(wanted) > len(there) * (len(wanted) if replace else 1):
            raise BagDataError(
                f"these bags need {len(wanted)} instances of {_named(name, place, names)}, and there are {len(there)}: "
                "ask for fewer or smaller bags, another positive_share, other targets, or replace=True."
            )
        rows[wanted] = random.choice(there, len(wanted), replace=replace) if len(wanted) else []
    return rows


def _named(name: Any, place: int, names: list[Any]) -> str:
    return "classes that are no target" if place == len(names) - 1 else f"class {name!r}"


def _candidates(y: Ints, q: int, n_false: int, random: Any) -> Ints:
    """The true class, which comes first, and the false ones by their random rank."""
    order = random.random_sample((len(y), q))
    order[np.arange(len(y)), y] = -1.0
    rank: Ints = order.argsort(axis=1).argsort(axis=1)
    return (rank <= n_false).astype(np.int64)
