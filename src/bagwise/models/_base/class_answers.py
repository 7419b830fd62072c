"""Answers of a model that may have been fitted to classes: probabilities of classes, of bags and of instances."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, as_bags
from bagwise.evidence.candidates import with_none
from bagwise.evidence.classes import given_classes
from bagwise.exceptions import BagDataError
from bagwise.models._base.label_answers import bag_weights
from bagwise.models._base.total_answers import TotalAnswers
from bagwise.predict.bag_classes import bag_class_probability, instance_class_probability, single_class_probability


class AnswersInClasses(TotalAnswers):
    """Where ``rule_`` is one of classes, answers are about these; all others are those of ``TotalAnswers``."""

    def predict_proba(self, bags: Any, *, given: Any = None) -> NDArray[np.float64]:
        """P(the bag is positive) by ``rule_``: (B, 2) in the order of ``classes_``, or (B, K) for K labels.

        Of a model of classes: the probability of every class, (B, K) in the order of ``classes_``. Each row sums to 1.
        ``given`` holds what these bags say of themselves. Of labels it is a label for every bag (NaN where unknown),
        taken as true. Of fractions and counts it is what ``fit`` takes, and the answer is what that leaves open of "at
        least one positive"; use ``predict_instance_proba`` to tell the instances of such bags apart. Of classes it has
        any form that ``fit`` takes: their class is then among their candidates. For the bags of the fit this says which
        of their candidates is the right one.
        """
        if not self.of_classes:
            return super().predict_proba(bags, given=given)
        checked = self._bags_to_judge(bags)
        if given is None:
            return self._of_new_bags(checked)
        table = self._table(given, checked, keyed=isinstance(bags, Bags))
        found = bag_class_probability(self._fitted(), checked, table)
        if self.rule_.none:
            return found
        if table[:, -1].any():
            raise BagDataError(
                f"given: bag {checked.ids[int(np.argmax(table[:, -1]))]!r} may have none of the classes, but no bag of "
                "the fit could; such a model does not know how probable that is."
            )
        return found[:, :-1]

    def predict(self, bags: Any) -> NDArray[Any]:
        """The more probable class of every bag: (B,), or (B, K) of 0/1 for K labels."""
        return super().predict(bags) if not self.of_classes else most_probable(self.classes_, self.predict_proba(bags))

    def predict_instance_proba(self, bags: Any, *, given: Any = None) -> NDArray[np.float64]:
        """P(the instance is positive), in the order of ``bags.X``: (N, 2), or (N, K) for K labels.

        Of a model of classes: the probabilities of ``instance_classes_``, (N, K + 1), the last one that it has none of
        the classes; every instance by itself. With ``given``, what the bags say of themselves, the whole bag is looked
        at: it shows one of its candidates, and no other class. Of labels ``given`` is one for every bag (NaN where
        unknown): no instance of a negative bag is positive, and in a positive bag every probability is divided by that
        of the bag. Fractions and counts are given as ``fit`` takes them.
        """
        if not self.of_classes:
            return super().predict_instance_proba(bags, given=given)
        checked = self._check_bags(bags)
        if given is None:
            return single_class_probability(self.features_, self.posterior_, checked, self.seed_)
        table = self._table(given, checked, keyed=isinstance(bags, Bags))
        return instance_class_probability(self._fitted(), checked, table)

    def predict_part_proba(self, bags: Any, *, given: Any = None) -> NDArray[np.float64]:
        """P(the part is positive) for the parts of bags (the slides of a patient): (P, 2), or (P, K) for K labels.

        Parts are in the order of ``bags.by_part().ids``. ``given`` are labels of the bags. A model of classes has no
        such answers.
        """
        self._refuse_classes("how probable a part is")
        return super().predict_part_proba(bags, given=given)

    def predict_instance_spread(self, bags: Any) -> NDArray[np.float64]:
        """Standard deviation of every instance's probability under the posterior: (N,), or (N, K); not of classes."""
        self._refuse_classes("how far the probability of an instance is open")
        return super().predict_instance_spread(bags)

    def predict_instances(self, bags: Any) -> NDArray[Any]:
        """The more probable class of every instance, in the order of ``bags.X``; of classes, or none of them."""
        if not self.of_classes:
            return super().predict_instances(bags)
        return most_probable(self.instance_classes_, self.predict_instance_proba(bags))

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over bags (with several labels: over all bags and labels), of "it holds at least one positive".

        Fractions, ranges of counts and ``Evidence`` are read as that label: 1 for a fraction above 0 or a lowest count
        of 1 or more, 0 for a fraction of 0 or a highest count of 0. Where ``y`` says neither (any other range, or
        nothing) the bag does not count. Of a model of classes: the share of the bags whose predicted class is among the
        candidates in ``y``; with one class per bag, the accuracy.
        """
        if not self.of_classes:
            return super().score(bags, y, sample_weight)
        given = as_bags(bags)
        sets = given_classes(y, given, self._shown_classes(), keyed=isinstance(bags, Bags))
        return candidate_score(*sets, self.predict_proba(given), sample_weight)

    @property
    def instance_classes_(self) -> NDArray[Any]:
        """The classes of instances: those of bags and, last, none of them. Only models of classes have them."""
        if not self.of_classes:
            raise AttributeError(f"this {type(self).__name__} was not fitted to classes: it has no instance_classes_.")
        return self.classes_ if self.rule_.none else with_none(self.classes_)

    # ------------------------------------------------------------ helpers

    def _refuse_classes(self, what: str) -> None:
        if self.of_classes:
            raise BagDataError(f"this {type(self).__name__} chooses one class out of many; it cannot say {what}.")

    def _shown_classes(self) -> NDArray[Any]:
        """The K classes that an instance may show."""
        return self.classes_[:-1] if self.rule_.none else self.classes_

    def _of_new_bags(self, bags: Bags) -> NDArray[np.float64]:
        """P(class) of bags that the fit did not see; that they have one is news about v, and counts as such.

        So a bag may have none of the classes under every draw, and what remains is made to sum to one afterwards. A bag
        of one has the probabilities of its instance.
        """
        everything = np.ones((len(bags), self._n_functions() + 1), dtype=bool)
        found = bag_class_probability(self._fitted(), bags, everything)
        alone = bags.sizes == 1
        if alone.any():
            found[alone] = single_class_probability(self.features_, self.posterior_, bags[alone], self.seed_)
        return found if self.rule_.none else _shares_of_one(found[:, :-1])

    def _table(self, given: Any, bags: Bags, *, keyed: bool) -> NDArray[np.bool_]:
        """Candidates of the bags, (B, K + 1)."""
        return given_classes(given, bags, self._shown_classes(), keyed=keyed).filled(self.rule_.none)

    def _several(self) -> bool:
        return self.of_classes or super()._several()

    def _column_names(self) -> tuple[str, ...] | None:
        return tuple(map(str, self._shown_classes())) if self.of_classes else super()._column_names()

    def _n_functions(self) -> int:
        return len(self._shown_classes()) if self.of_classes else super()._n_functions()

    def _has_sound_classes(self) -> bool:
        if not self.of_classes:
            return super()._has_sound_classes()
        return self.classes_.ndim == 1 and len(set(self.classes_.tolist())) == len(self.classes_) >= 2


def most_probable(classes: NDArray[Any], probability: NDArray[np.float64]) -> NDArray[Any]:
    """The class of the largest probability in every row."""
    best: NDArray[Any] = classes[probability.argmax(axis=1)]
    return best


def candidate_score(
    table: NDArray[np.bool_], observed: NDArray[np.bool_], probability: NDArray[np.float64], sample_weight: Any
) -> float:
    """Weighted share of the bags whose most probable class is a candidate; bags that state nothing do not count."""
    if not observed.any():
        raise BagDataError("nothing is known of any bag: there is nothing to compare the predictions with.")
    hits = table[np.arange(len(table)), probability.argmax(axis=1)]
    weights = bag_weights(sample_weight, len(table))
    return float(np.average(hits[observed], weights=weights[observed]))


def _shares_of_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that sum to one; alike where all entries are too small to be told from 0."""
    safe = np.maximum(values, np.finfo(np.float64).tiny)
    shares: NDArray[np.float64] = safe / safe.sum(axis=1, keepdims=True)
    return shares
