"""Decisions about bags and instances, and their accuracy, from the probabilities of two classes."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from bagwise import _validation as check
from bagwise.bags import Bags, as_bags
from bagwise.evidence.labels import label_array
from bagwise.exceptions import BagDataError
from bagwise.models._base.saved import SavedEstimator


class LabelAnswers(SavedEstimator, ClassifierMixin, BaseEstimator):
    """A classifier of bags and of their instances: two classes, or several label columns."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, bags: Any) -> NDArray[np.float64]:
        """P(the bag is positive): (B, 2) in the order of ``classes_``, or (B, K) for K labels."""
        raise NotImplementedError

    def predict_instance_proba(self, bags: Any) -> NDArray[np.float64]:
        """P(the instance is positive), in the order of ``bags.X``: (N, 2), or (N, K) for K labels."""
        raise NotImplementedError

    def predict(self, bags: Any) -> NDArray[Any]:
        """The more probable class of every bag: (B,), or (B, K) of 0/1 for K labels."""
        return self._decide(self.predict_proba(bags))

    def predict_instances(self, bags: Any) -> NDArray[Any]:
        """The more probable class of every instance, in the order of ``bags.X``."""
        return self._decide(self.predict_instance_proba(bags))

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over bags (with several labels: over all bags and labels); bags without a label do not count."""
        given = as_bags(bags)
        predicted = self.predict(given).reshape(len(given), -1)
        truth = self._known_truth(label_array(y, given, keyed=isinstance(bags, Bags)), predicted.shape)
        seen = ~pd.isna(truth)
        weights = np.broadcast_to(bag_weights(sample_weight, len(given))[:, None], seen.shape)
        return float(np.average((truth == predicted)[seen], weights=weights[seen]))

    def _known_truth(self, y: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Labels to compare predictions with: as many columns as in fit, no class that fit did not know."""
        truth = y.reshape(len(y), -1)
        if truth.shape != shape:
            raise BagDataError(f"y has {truth.shape[1]} label columns; the model was fitted with {shape[1]}.")
        seen, classes = truth[~pd.isna(truth)], np.ravel(self.classes_)[:2]
        if len(seen) == 0:
            raise BagDataError("every label of y is missing: there is nothing to compare the predictions with.")
        check.check_hashable(seen, "y")
        strange = set(seen.tolist()) - set(classes.tolist())
        if strange:
            known = check.shorten(classes)
            raise BagDataError(f"y holds {check.shorten(strange)}; the model was fitted with the classes {known}.")
        return truth

    def _columns(self, positive: NDArray[np.float64]) -> NDArray[np.float64]:
        return positive if self._several() else np.column_stack([1.0 - positive, positive])

    def _decide(self, probability: NDArray[np.float64]) -> NDArray[Any]:
        if self._several():
            return (probability > 0.5).astype(int)
        classes: NDArray[Any] = self.classes_[(probability[:, 1] > 0.5).astype(int)]
        return classes


def bag_weights(sample_weight: Any, n_bags: int) -> NDArray[np.float64]:
    """One weight per bag, 1 where none are given."""
    weights = np.ones(n_bags) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if weights.shape != (n_bags,):
        raise BagDataError(f"sample_weight: expected one weight per bag ({n_bags}), got shape {weights.shape}.")
    return weights
