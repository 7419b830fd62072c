"""Individually known instances: whether there are any, and as bags of one for models of nothing but bag labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._matrices import stacked_rows
from bagwise.bags import Bags
from bagwise.evidence.labels import Labels
from bagwise.exceptions import BagDataError
from bagwise.sources.rows import StoredRows


def has_known(bags: Bags) -> bool:
    """Whether any instance is known by itself."""
    return bags.known is not None and not bool(np.isnan(bags.known).all())


def refuse_known_of_several(bags: Bags) -> None:
    """Known instances belong to one label column; where there are several, nothing says to which."""
    if has_known(bags):
        raise BagDataError(
            "the bags carry known instance labels, but y has several label columns and nothing says which one they "
            "belong to; fit that column alone, or drop them with bags.with_known(None)."
        )


def with_known_as_bags(bags: Bags, labels: Labels) -> tuple[Bags, NDArray[np.float64]]:
    """The bags and, after them, one bag for every known instance (a second copy of its row), with all their labels."""
    if not has_known(bags):
        return bags, labels.values
    if labels.several:
        refuse_known_of_several(bags)
    _check_agreement(bags, labels.values[:, 0])
    rows = np.flatnonzero(~np.isnan(bags.known))
    groups = np.concatenate([bags.index, len(bags) + np.arange(len(rows))])
    joined = Bags(_with_rows_after(bags.X, bags.X[rows]), groups, feature_names=bags.feature_names)
    return joined, np.concatenate([labels.values, bags.known[rows][:, None]])


def with_known_weights(bags: Bags, weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """The weights of the bags that ``with_known_as_bags`` makes: a known instance has the weight of its bag."""
    if weights is None or not has_known(bags):
        return weights
    return np.concatenate([weights, weights[bags.index[~np.isnan(bags.known)]]])


def _with_rows_after(X: Any, more: Any) -> Any:
    return X.followed_by(more) if isinstance(X, StoredRows) else stacked_rows([X, more])


def _check_agreement(bags: Bags, y: NDArray[np.float64]) -> None:
    """No known positive in a negative bag, no positive bag of known negatives."""
    known = np.asarray(bags.known)
    positives = np.add.reduceat((known == 1).astype(int), bags.offsets[:-1])
    negatives = np.add.reduceat((known == 0).astype(int), bags.offsets[:-1])
    for wrong, label, culprit in (
        ((y == 0) & (positives > 0), "negative", 1),
        ((y == 1) & (negatives == bags.sizes), "positive", 0),
    ):
        if wrong.any():
            bag = int(np.flatnonzero(wrong)[0])
            row = int(np.flatnonzero((bags.index == bag) & (known == culprit))[0])
            raise BagDataError(
                f"bag {bags.ids[bag]!r} is labelled {label}, but among its {bags.sizes[bag]} instances "
                f"{positives[bag] if culprit else negatives[bag]} are known to be {culprit}, the first in row "
                f"{bags.rows[row]} of the table. Correct one of the two."
            )
