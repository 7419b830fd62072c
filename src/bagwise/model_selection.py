"""Ways of splitting bags that scikit-learn does not have."""

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit, GroupKFold, StratifiedGroupKFold
from sklearn.model_selection import cross_val_score as scores_of_folds

from bagwise._validation import check_count, check_flag, random_stream
from bagwise.bags import Bags, ragged_ranges
from bagwise.exceptions import BagDataError
from bagwise.models._base.card import Abilities

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class BagGroupKFold(BaseCrossValidator):
    """Folds that never tear a group apart: all slides of a patient are in one fold.

    Groups are those of the bags (``bags.group``, from ``Bags.from_frame(..., group="patient")``); where there are none,
    every bag stands for itself. Where ``y`` has a few classes, the folds have about the same share of each. A
    scikit-learn splitter: ``cross_val_score(model, bags, y, cv=BagGroupKFold(5))``.

    Parameters
    ----------
    n_splits : number of folds, at least 2
    shuffle : deal groups at random, rather than by their order and size
    random_state : as in scikit-learn, where they are dealt at random
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return check_count("n_splits", self.n_splits, least=2)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Ints, Ints]]:
        """Numbers of the training bags and of the test bags for every fold; ``groups`` replaces those of the bags."""
        keys = _groups_of(X, groups)
        if len(np.unique(keys)) < self.get_n_splits():
            raise BagDataError(
                f"n_splits={self.n_splits}: there are only {len(np.unique(keys))} groups; every fold needs one."
            )
        kinds = _kinds(y, len(keys))
        folds = StratifiedGroupKFold if kinds is not None else GroupKFold
        dealt = {"shuffle": check_flag("shuffle", self.shuffle), "random_state": self.random_state}
        how = dealt if self.shuffle else {}
        yield from folds(self.n_splits, **how).split(np.zeros(len(keys)), kinds, keys)


def cross_val_score(
    model: Any, bags: Any, y: Any, *, cv: Any = 5, scoring: Any = None, params: Any = None, n_jobs: Any = None
) -> Floats:
    """scikit-learn's ``cross_val_score`` with folds that never tear a group of the bags apart.

    Parameters
    ----------
    model, bags, y, scoring, params, n_jobs : as in scikit-learn; ``params={"sample_weight": ...}`` are weights of bags
    cv : number of folds (``BagGroupKFold``), or a splitter, which is used as it is
    """
    splitter = BagGroupKFold(int(cv)) if isinstance(cv, numbers.Integral) else cv
    found: Floats = scores_of_folds(model, bags, y, cv=splitter, scoring=scoring, params=params, n_jobs=n_jobs)
    return found


class HeldOut:
    """Answers about bags by models that were not fitted on them; enough of an estimator for reports and metrics.

    ``folds`` are the numbers of the bags that each of the ``models`` has not seen.
    """

    abilities = Abilities()

    def __init__(self, models: list[Any], folds: list[Ints], bags: Bags) -> None:
        first = models[0]
        self.of_classes, self.kind_of_y = first.of_classes, first.kind_of_y
        self.classes_, self.label_names_ = first.classes_, first.label_names_
        self.instance_classes_ = first.instance_classes_ if first.of_classes else None
        self.models, self.folds, self._bags = models, folds, bags

    def predict_proba(self, bags: Bags) -> Floats:
        """Probabilities of the bags, each by the model of its fold."""
        return self._joined("predict_proba", np.concatenate(self.folds))

    def predict_instance_proba(self, bags: Bags) -> Floats:
        """Probabilities of the instances, each by the model of its bag's fold."""
        starts, sizes = self._bags.offsets[:-1], self._bags.sizes
        return self._joined(
            "predict_instance_proba", np.concatenate([ragged_ranges(starts[fold], sizes[fold]) for fold in self.folds])
        )

    def _joined(self, ask: str, places: Ints) -> Floats:
        pairs = zip(self.models, self.folds, strict=True)
        found: Floats = np.concatenate([getattr(model, ask)(self._bags[fold]) for model, fold in pairs])
        return found[np.argsort(places)]


def held_out(model: Any, bags: Bags, y: Any, n_splits: int) -> HeldOut:
    """Fit the settings of a model once for every fold, on all other folds; no group of bags is in two of them."""
    check_count("folds", n_splits, least=2)
    values = np.asarray(y)
    if y is None or values.ndim > 2:
        raise BagDataError("folds: there is nothing to learn from; every fold needs labels.")
    splits = list(BagGroupKFold(n_splits, shuffle=True, random_state=0).split(bags, values))
    rows = y.iloc if isinstance(y, pd.DataFrame | pd.Series) else y
    models = [clone(model).fit(bags[train], rows[train]) for train, _ in splits]
    return HeldOut(models, [test for _, test in splits], bags)


def _groups_of(X: Any, groups: Any) -> NDArray[Any]:
    if groups is not None:
        return _codes(groups, len(X))
    own = X.group if isinstance(X, Bags) else None
    return np.arange(len(X)) if own is None else _codes(own, len(X))


def _kinds(y: Any, n_bags: int) -> NDArray[Any] | None:
    """What folds are to be alike in: classes of which there are few (missing is one more), else nothing."""
    values = np.asarray(y) if isinstance(y, np.ndarray | list | tuple | pd.Series) else np.empty(0)
    if values.shape != (n_bags,):
        return None
    codes = pd.factorize(values)[0]
    return codes if len(np.unique(codes)) <= max(2, n_bags // 10) else None


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
