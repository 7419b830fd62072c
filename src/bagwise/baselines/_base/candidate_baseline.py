"""Baselines that learn one class out of many from candidate sets; a bag is one row, made of its instances."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from bagwise import _validation as check
from bagwise.bags import Bags, as_bags
from bagwise.baselines._base.baseline import ONLY_WHOLE, SavedBaseline
from bagwise.baselines._base.machines import Floats, Machine, as_bags_of_one, bag_means, largest
from bagwise.evidence.candidates import candidate_sets, read_candidates, with_none
from bagwise.evidence.weights import repeated_by_weight
from bagwise.exceptions import BagDataError
from bagwise.models._base.label_answers import bag_weights

SUMMARIES = ("mean", "maxmin")


class ClassMachine(Machine):
    """A machine with one score per class."""

    def class_scores(self, rows: Floats) -> Floats:
        """(B, q) non-negative scores of rows that stand for bags."""
        raise NotImplementedError


@dataclass(frozen=True)
class Summarised(Machine):
    """A machine of rows, asked about the row that stands for a bag."""

    summary: str
    machine: ClassMachine

    def shares(self, bags: Bags) -> Floats:
        """(B, q) shares of the classes in the scores; all alike where no class has any."""
        scores = self.machine.class_scores(summaries(bags, self.summary))
        total = scores.sum(axis=1, keepdims=True)
        even = np.full_like(scores, 1.0 / scores.shape[1])
        found: Floats = np.divide(scores, total, out=even, where=total > 0)
        return found


def summaries(bags: Bags, summary: str) -> Floats:
    """One row per bag: the mean of its instances, or their largest and smallest values."""
    if summary == "mean":
        return bag_means(bags.X, bags)
    return np.concatenate([largest(bags.X, bags), -largest(-bags.X, bags)], axis=1)


class CandidateBaseline(ClassifierMixin, SavedBaseline):
    """A partial-label method for single rows; ``summary`` makes one row of a bag.

    A class derived from it writes ``_learn``.
    """

    @property
    def of_classes(self) -> bool:
        """Whether the fitted estimator chooses one class out of many; it then has ``instance_classes_``."""
        return True

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and their candidate sets, one per bag; a bag without (None, a row of NaN) states nothing.

        ``sample_weight`` says how often every bag counts: whole numbers, 0 leaves it out.
        """
        rows = self._training_bags(bags, y)
        if sample_weight is not None:
            return self.fit(*repeated_by_weight(bags, y, as_bags(bags), sample_weight, type(self).__name__, ONLY_WHOLE))
        sets = read_candidates(y, rows, keyed=isinstance(bags, Bags))
        with_none(sets.classes)  # refuses a class of the name of the added one
        self._remember(sets.classes, None)
        random, made = check.random_stream(self.random_state), summaries(rows, self.summary)
        machine = self._learn(made[sets.observed], sets.table[sets.observed], random)
        self.machines_ = (Summarised(self.summary, machine),)
        return self

    def predict_proba(self, bags: Any) -> Floats:
        """Shares of the classes in the scores of every bag, (B, q)."""
        return self._shares(self._scaled(self._check_bags(bags)))

    def predict(self, bags: Any) -> NDArray[Any]:
        """The class of the largest score of every bag, (B,)."""
        best = self.predict_proba(bags).argmax(axis=1)
        classes: NDArray[Any] = self.classes_[best]
        return classes

    def predict_instance_proba(self, bags: Any) -> Floats:
        """Shares of the classes if the instance were a bag, (N, q + 1); the last, "none of them", is 0 throughout."""
        shares = self._shares(as_bags_of_one(self._scaled(self._check_bags(bags))))
        return np.column_stack([shares, np.zeros(len(shares))])

    def predict_instances(self, bags: Any) -> NDArray[Any]:
        """The class of the largest score of every instance as a bag, (N,)."""
        best = self.predict_instance_proba(bags).argmax(axis=1)
        classes: NDArray[Any] = self.instance_classes_[best]
        return classes

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the bags whose predicted class is a candidate; bags that state nothing do not count."""
        given = as_bags(bags)
        sets = candidate_sets(y, given, keyed=isinstance(bags, Bags), classes=self.classes_)
        if not sets.observed.any():
            raise BagDataError("nothing is known of any bag: there is nothing to compare the predictions with.")
        hits = sets.table[np.arange(len(given)), self.predict_proba(bags).argmax(axis=1)]
        weights = bag_weights(sample_weight, len(given))
        return float(np.average(hits[sets.observed], weights=weights[sets.observed]))

    @property
    def instance_classes_(self) -> NDArray[Any]:
        """The classes and, last, what an instance of none of them is called."""
        return with_none(self.classes_)

    def _learn(self, rows: Floats, table: NDArray[np.bool_], random: np.random.RandomState) -> ClassMachine:
        """The machine of one row per bag and its candidates, (B, q)."""
        raise NotImplementedError

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_option("summary", self.summary, SUMMARIES)

    def _shares(self, bags: Bags) -> Floats:
        machine = self.machines_[0]
        assert isinstance(machine, Summarised)
        return machine.shares(bags)
