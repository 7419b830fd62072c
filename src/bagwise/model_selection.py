"""Ways of splitting bags that scikit-learn does not have."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseShuffleSplit

from bagwise._validation import check_count, random_stream
from bagwise.exceptions import BagDataError

Ints = NDArray[np.int64]


class RetrievalSplit(BaseShuffleSplit):
    """Few labelled bags to learn from, all others to rank: the protocol of content-based image retrieval.

    Every split takes ``n_positive`` random bags of the wanted kind and ``n_negative`` of the others for training; the
    rest is for testing. A scikit-learn splitter: ``cross_val_score(model, bags, y, cv=RetrievalSplit(),
    scoring="roc_auc")``. With ``groups`` (the category of every bag) the negative ones come evenly from the other
    categories, one of each before a second of any; without, they are drawn at random.

    Parameters
    ----------
    n_splits : how often
    n_positive, n_negative : training bags of each kind; 20 and 24 as published by Kim & De la Torre for 25 categories
    random_state : as in scikit-learn
    """

    def __init__(
        self, n_splits: int = 5, *, n_positive: int = 20, n_negative: int = 24, random_state: Any = None
    ) -> None:
        super().__init__(n_splits=n_splits, random_state=random_state)
        self.n_positive = n_positive
        self.n_negative = n_negative

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Ints, Ints]]:
        """Numbers of the training bags and of the test bags, in ascending order, for every split."""
        if y is None:
            raise BagDataError("RetrievalSplit needs y: which bags are of the wanted kind.")
        yield from self._iter_indices(X, y, groups)

    def _iter_indices(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Ints, Ints]]:
        positive = _positive(y)
        kinds = np.zeros(len(positive), dtype=np.int64) if groups is None else _codes(groups, len(positive))
        wanted, others = np.flatnonzero(positive), np.flatnonzero(~positive)
        _check_enough("n_positive", self.n_positive, wanted)
        _check_enough("n_negative", self.n_negative, others)
        random = random_stream(self.random_state)
        for _ in range(check_count("n_splits", self.n_splits)):
            chosen = random.permutation(wanted)[: self.n_positive]
            evenly = _evenly(random.permutation(others), kinds)[: self.n_negative]
            train = np.sort(np.concatenate([chosen, evenly]))
            yield train, np.setdiff1d(np.arange(len(positive)), train)


def _positive(y: Any) -> NDArray[np.bool_]:
    values = np.asarray(y)
    classes = np.unique(values)
    if values.ndim != 1 or len(classes) != 2:
        raise BagDataError(
            f"RetrievalSplit: expected y with two class values, the wanted one second in order, got shape "
            f"{values.shape} with {len(classes)} values; ask for one category at a time (y = category == wanted)."
        )
    positive: NDArray[np.bool_] = values == classes[1]
    return positive


def _codes(groups: Any, n_bags: int) -> Ints:
    codes: Ints = np.unique(np.asarray(groups), return_inverse=True)[1].ravel().astype(np.int64)
    if len(codes) != n_bags:
        raise BagDataError(f"groups has {len(codes)} entries, but there are {n_bags} bags; give one category per bag.")
    return codes


def _check_enough(name: str, count: Any, there: Ints) -> None:
    if check_count(name, count) >= len(there):
        kind = "wanted" if name == "n_positive" else "other"
        raise BagDataError(
            f"{name}={count}: there are {len(there)} bags of the {kind} kind, and some must be left to rank."
        )


def _evenly(shuffled: Ints, kinds: Ints) -> Ints:
    """The first of every kind, then the second of every kind, and so on; within a turn as shuffled."""
    turn = np.empty(len(shuffled), dtype=np.int64)
    for kind in np.unique(kinds[shuffled]):
        places = np.flatnonzero(kinds[shuffled] == kind)
        turn[places] = np.arange(len(places))
    return shuffled[np.argsort(turn, kind="stable")]
