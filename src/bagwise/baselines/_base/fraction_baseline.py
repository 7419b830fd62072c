"""Baselines that learn a function of instances from the fraction of positives in every bag."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from bagwise import _validation as check
from bagwise.bags import Bags, as_bags
from bagwise.baselines._base.baseline import ONLY_WHOLE, SavedBaseline
from bagwise.baselines._base.machines import Floats, Machine, RowFunction, bag_means
from bagwise.evidence.reading import CountReading, holds_positive, read_statement
from bagwise.evidence.weights import repeated_by_weight
from bagwise.exceptions import BagDataWarning, warn_user
from bagwise.models._base.card import Abilities
from bagwise.models._base.label_answers import LabelAnswers
from bagwise.numerics.counting.law import summed_count_laws
from bagwise.numerics.links import LOGISTIC
from bagwise.predict.counts import (
    FractionSummary,
    central_fractions,
    chance_of_range,
    check_count_range,
    check_level,
)

_READING = CountReading("fraction", 1.0)
_SURE = 30.0  # log odds beyond which an instance is certain enough


@dataclass(frozen=True)
class RowOdds(Machine):
    """Log odds of every row, and of a bag that it holds at least one positive if its rows are independent."""

    function: RowFunction

    def odds(self, bags: Bags) -> Floats:
        """(N,) log odds of the rows."""
        return np.clip(self.function.values(bags.X), -_SURE, _SURE)

    def scores(self, bags: Bags) -> Floats:
        """(B,) log odds that at least one row is positive."""
        none = np.add.reduceat(log_expit(-self.odds(bags)), bags.offsets[:-1])
        found: Floats = np.log(-np.expm1(none)) - none
        return found


class FractionBaseline(LabelAnswers, SavedBaseline):
    """Learns log odds of instances; a bag is positive if at least one instance is.

    A class derived from it writes ``_learn``.
    """

    abilities: ClassVar[Abilities] = Abilities(fractions=True)

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and the fraction of positives in each (NaN where it is missing).

        ``sample_weight`` says how often every bag counts: whole numbers, 0 leaves it out.
        """
        rows = self._training_bags(bags, y)
        if sample_weight is not None:
            return self.fit(*repeated_by_weight(bags, y, as_bags(bags), sample_weight, type(self).__name__, ONLY_WHOLE))
        statement = read_statement(y, rows, isinstance(bags, Bags), _READING)
        assert statement is not None  # labels are read as fractions here
        self._remember(np.array([0, 1]), None)
        fraction = np.asarray(statement.first, dtype=np.float64)
        seen = ~np.isnan(fraction)
        if seen.any():
            random = check.random_stream(self.random_state)
            self.machines_ = (RowOdds(self._learn(rows[seen], fraction[seen], random)),)
        else:
            warn_user("nothing is known about any bag: every instance gets a probability of one half.", BagDataWarning)
            self.machines_ = (RowOdds(RowFunction(np.zeros((1, rows.n_features)), np.zeros(1), 0.0, 0.0)),)
        return self

    def predict_proba(self, bags: Any) -> Floats:
        """P(the bag holds at least one positive), (B, 2), if its instances are independent."""
        rows = self._scaled(self._check_bags(bags))
        return self._columns(expit(self.machines_[0].scores(rows)))

    def predict_instance_proba(self, bags: Any) -> Floats:
        """P(the instance is positive), (N, 2), in the order of ``bags.X``."""
        return self._columns(expit(self._odds(self._check_bags(bags))))

    def predict_fraction(self, bags: Any, level: float = 0.9) -> FractionSummary:
        """Expected fraction of positives of every bag, and an interval if its instances are independent."""
        checked = self._check_bags(bags)
        tail = 0.5 * (1.0 - check_level(level))
        lower, upper = central_fractions(self._law(checked), checked.sizes, tail)
        return FractionSummary(bag_means(expit(self._odds(checked)), checked), lower[:, 0], upper[:, 0])

    def predict_count_proba(self, bags: Any, lo: Any, hi: Any = None) -> Floats:
        """P(lo ≤ number of positives ≤ hi) of every bag, (B,), if its instances are independent."""
        checked = self._check_bags(bags)
        return chance_of_range(self._law(checked), checked.sizes, *check_count_range(lo, hi, checked))[:, 0]

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over bags, of "it holds at least one positive"; a bag without a fraction does not count."""
        given = as_bags(bags)
        statement = read_statement(y, given, isinstance(bags, Bags), _READING)
        return super().score(given, None if statement is None else holds_positive(statement), sample_weight)

    def _learn(self, bags: Bags, fraction: Floats, random: np.random.RandomState) -> RowFunction:
        """Log odds of rows, learned from scaled bags and their fractions."""
        raise NotImplementedError

    def _odds(self, bags: Bags) -> Floats:
        rows, machine = self._scaled(bags), self.machines_[0]
        assert isinstance(machine, RowOdds)
        return machine.odds(rows)

    def _law(self, bags: Bags) -> NDArray[np.float64]:
        odds = torch.from_numpy(self._odds(bags))[:, None]
        law: Floats = summed_count_laws(odds, torch.tensor(bags.sizes), LOGISTIC).numpy()[:, None]
        return law

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags
