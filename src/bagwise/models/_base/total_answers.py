"""Answers of a model of totals: numbers behind every row, and fractions and counts given what bags themselves state."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountReading, Stated, counted, read_stated
from bagwise.evidence.statements import LABEL, NONE, Evidence
from bagwise.evidence.totals import StatedTotals, TotalStatements, expected_totals, seen_totals, total_statements
from bagwise.exceptions import BagDataError
from bagwise.models._base.card import Abilities
from bagwise.models._base.count_answers import CountAnswers
from bagwise.predict.cells import cell_draws
from bagwise.predict.counts import FractionSummary, check_count_range, check_level
from bagwise.predict.given import bags_given_counts, instances_given_counts

GIVEN_DRAWS = 400  # joint draws that an answer given a statement is taken from

Array = NDArray[np.float64]


class TotalAnswers(CountAnswers):
    """``CountAnswers`` that can be conditioned on what a bag states about its own number of positives."""

    abilities: ClassVar[Abilities] = CountAnswers.abilities._replace(totals=True)

    confidence: Any
    label_noise: float
    totals_seen_: str | None

    def predict_fraction(self, bags: Any, level: float = 0.9, *, given: Any = None) -> FractionSummary:
        """Expected fraction of positives of every bag, and an interval that holds the true one this surely.

        ``given`` is what these bags state themselves (as ``y`` in ``fit``, or an ``Evidence``), where they were not in
        the fit: the answer is then about bags that state this.
        """
        if given is None:
            return super().predict_fraction(bags, level)
        tail = 0.5 * (1.0 - check_level(level))
        checked, numbers, weight = self._given_numbers(bags, given)
        share = numbers / checked.totals[:, None]
        ends = (_weighted_quantile(share, weight, at) for at in (tail, 1.0 - tail))
        found = FractionSummary((weight * share).sum(0), *ends)
        return found if self._several() else FractionSummary(*(part[:, 0] for part in found))

    def predict_count_proba(self, bags: Any, lo: Any, hi: Any = None, *, given: Any = None) -> Array:
        """P(lo ≤ number of positives ≤ hi) of every bag: (B,), or (B, K). Limits are numbers or one per bag.

        ``given`` is what these bags state themselves, as in ``predict_fraction``.
        """
        if given is None:
            return super().predict_count_proba(bags, lo, hi)
        checked, numbers, weight = self._given_numbers(bags, given)
        lowest, highest = (end[:, None] for end in check_count_range(lo, hi, checked))
        found: Array = (weight * ((numbers >= lowest - 0.5) & (numbers <= highest + 0.5))).sum(0)
        return found if self._several() else found[:, 0]

    def predict_proba(self, bags: Any, *, given: Any = None) -> Array:
        """P(the bag holds at least one positive): (B, 2), or (B, K) for K labels.

        ``given`` is what these bags state themselves, as ``y`` in ``fit``, or an ``Evidence``: labels, fractions or
        counts. A bag with a label then gets probability 0 or 1, and one with a fraction or a count what that leaves
        open. For its instances use ``predict_instance_proba`` with the same ``given``.
        """
        if given is None or not self._tells_counts(given):
            return super().predict_proba(bags, given=given)
        checked = self._bags_to_judge(bags)
        if _all_missing(given):
            return super().predict_proba(checked)
        if checked.weight is not None:
            return self._columns(self.predict_count_proba(bags, 1, given=given))
        return self._columns(bags_given_counts(self._fitted(), checked, self._counted(bags, given)))

    def predict_instance_proba(self, bags: Any, *, given: Any = None) -> Array:
        """P(the instance is positive), in the order of ``bags.X``: (N, 2), or (N, K) for K labels.

        ``given`` is what these bags state themselves, as ``y`` in ``fit``, or an ``Evidence``: labels, fractions or
        counts. The answer is then the probability given the statement of the instance's own bag.
        """
        if given is None or not self._tells_counts(given):
            return super().predict_instance_proba(bags, given=given)
        checked = self._check_bags(bags)
        if _all_missing(given):
            return super().predict_instance_proba(checked)
        if checked.weight is not None:
            raise BagDataError(
                "given: a row with a weight stands for many individuals, and there is no probability of one of them "
                "given the statement of its bag. Use draw_cells(bags, y) for the number of positives behind every row."
            )
        return self._columns(instances_given_counts(self._fitted(), checked, self._counted(bags, given)))

    def _counted(self, bags: Any, given: Any) -> CountEvidence:
        """What bags of single individuals state, as tables over the number of positives."""
        checked, stated = self._stated(bags, given)
        return counted(stated, checked, self._reading()).evidence

    def _reading(self) -> CountReading:
        return CountReading(self.evidence, self.confidence, self.label_noise)

    def _tells_counts(self, given: Any) -> bool:
        """Whether something that is given says more than labels."""
        if isinstance(given, Evidence):
            return not np.isin(given.kind, (NONE, LABEL)).all()
        return self.evidence in ("fraction", "count")

    def stated_totals(self, bags: Any, y: Any) -> StatedTotals:
        """What bags state, read as ``fit`` reads it, as numbers of positives."""
        checked, stated = self._stated(bags, y)
        names = stated.names or (str(self.classes_[1]),)
        return expected_totals(self._columns_of(checked, stated), names, stated.shares)

    def has_seen(self, bags: Any, y: Any) -> bool:
        """Whether a fit to totals was to these bags, which stated this; True where the model does not know."""
        seen = self.totals_seen_
        return seen is None or seen == seen_totals(self._check_bags(bags), self.stated_totals(bags, y).expected)

    def draw_cells(self, bags: Any, y: Any, n_draws: int = 400) -> Array:
        """Joint draws of the number of positives behind every row, given what the bags of the fit state: (S, N, K)."""
        checked, stated = self._stated(bags, y)
        check.check_count("n_draws", n_draws)
        return cell_draws(self._fitted(), checked, self._columns_of(checked, stated), n_draws).positives

    def _given_numbers(self, bags: Any, given: Any) -> tuple[Bags, Array, Array]:
        """Draws of the numbers of positives, (S, B, K), and their weights: P(statement | v) (theory section 15)."""
        checked, stated = self._stated(bags, given)
        found = cell_draws(self._fitted(), checked, self._columns_of(checked, stated), GIVEN_DRAWS, new=True)
        weight = np.exp(found.log_z - found.log_z.max(axis=0))
        return checked, np.add.reduceat(found.positives, checked.offsets[:-1], axis=1), weight / weight.sum(axis=0)

    def _stated(self, bags: Any, y: Any) -> tuple[Bags, Stated]:
        checked = self._check_bags(bags)
        stated = read_stated(y, checked, bags, self._reading())
        if len(stated.columns) != self._n_functions():
            raise BagDataError(f"y has {len(stated.columns)} columns; the model was fitted with {self._n_functions()}.")
        return checked, stated

    def _columns_of(self, bags: Bags, stated: Stated) -> tuple[TotalStatements, ...]:
        return tuple(total_statements(column, bags, self.label_noise) for column in stated.columns)


def _all_missing(given: Any) -> bool:
    """Whether numbers that are given are missing for every bag."""
    if isinstance(given, Evidence):
        return False
    values = list(given.values()) if isinstance(given, Mapping) else given
    return bool(np.all(pd.isna(np.asarray(values, dtype=object))))


def _weighted_quantile(values: Array, weight: Array, at: float) -> Array:
    """Along the first axis."""
    order = np.argsort(values, axis=0)
    running = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)
    place = (running < at).sum(axis=0)[None].clip(max=len(values) - 1)
    found: Array = np.take_along_axis(np.take_along_axis(values, order, axis=0), place, axis=0)[0]
    return found
