"""What estimators share that learn from statements about counts: they answer questions about counts, too."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, as_bags
from bagwise.evidence.reading import CountReading, holds_positive, read_statement
from bagwise.evidence.statements import Evidence
from bagwise.exceptions import BagDataError
from bagwise.models._base.card import Abilities
from bagwise.models._base.estimator import BagClassifier
from bagwise.predict import counts as predict_counts

KINDS = ("label", "fraction", "count")  # what ``evidence`` may be


class CountAnswers(BagClassifier):
    """A ``BagClassifier`` whose ``evidence`` says what ``y`` holds, and with answers about numbers of positives."""

    abilities: ClassVar[Abilities] = BagClassifier.abilities._replace(fractions=True)
    evidence: str

    @property
    def kind_of_y(self) -> str:
        """The kind of evidence that ``y`` holds, where it is no ``Evidence``."""
        return self.evidence

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over bags (with several labels: over all bags and labels), of "it holds at least one positive".

        Fractions, ranges of counts and ``Evidence`` are read as that label: 1 for a fraction above 0 or a lowest count
        of 1 or more, 0 for a fraction of 0 or a highest count of 0. Where ``y`` says neither (any other range, or
        nothing) the bag does not count.
        """
        given = as_bags(bags)
        statement = read_statement(y, given, isinstance(bags, Bags), CountReading(self.evidence, 1.0))
        if statement is None:
            return super().score(bags, y, sample_weight)
        holds = holds_positive(statement)
        truth = np.full(len(holds), None)
        truth[~np.isnan(holds)] = np.ravel(self.classes_)[:2][holds[~np.isnan(holds)].astype(int)]
        return super().score(given, truth, sample_weight)

    def predict_count_proba(self, bags: Any, lo: Any, hi: Any = None) -> NDArray[np.float64]:
        """P(lo ≤ number of positives ≤ hi) of every bag: (B,), or (B, K). Limits are numbers or one per bag."""
        checked = self._bags_to_judge(bags)
        found = predict_counts.count_probability(self._fitted(), checked, lo, hi)
        return found if self._several() else found[:, 0]

    def predict_fraction(self, bags: Any, level: float = 0.9) -> predict_counts.FractionSummary:
        """Expected fraction of positives of every bag, and an interval that holds the true one this surely."""
        checked = self._check_bags(bags)
        found = predict_counts.fraction_summary(self._fitted(), checked, level)
        return found if self._several() else type(found)(*(part[:, 0] for part in found))

    def _given_labels(self, bags: Any, checked: Bags, given: Any) -> NDArray[np.float64]:
        if self.evidence in ("fraction", "count") and not isinstance(given, Evidence):
            raise BagDataError(
                f"given: {type(self).__name__} was fitted to {self.evidence}s and reads plain numbers so, but this "
                "answer can be given labels only. Give labels as bagwise.label(y): 1 where a bag holds at least one "
                "positive, 0 where it holds none, NaN where that is unknown. With BagGP, predict_proba(bags, given=y) "
                "and predict_instance_proba(bags, given=y) take fractions and counts, too."
            )
        return super()._given_labels(bags, checked, given)
