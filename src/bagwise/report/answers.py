"""What a model says about some bags, in the one form the page needs: columns of truth and probability."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.candidates import candidate_sets
from bagwise.evidence.classes import given_classes
from bagwise.evidence.reading import CountReading, holds_positive, read_stated, read_statement
from bagwise.evidence.statements import COUNT, FRACTION, LABEL, Evidence, fraction
from bagwise.exceptions import BagDataError
from bagwise.io.predictions import given_argument
from bagwise.metrics import class_numbers, instance_truth, positive_proba, truth_of
from bagwise.predict.counts import FractionSummary

Floats = NDArray[np.float64]

PLAIN_WORDS = ("negative", "positive")


@dataclass(frozen=True)
class ReportedCounts:
    """What the model says of the numbers of positives, asked where the truth is about them."""

    expected: FractionSummary  # (B,) each; the interval is one of 90 %
    range_probability: Floats  # (B,) P(the number is in the stated range); of no meaning where none is stated


@dataclass(frozen=True)
class ClassAnswers:
    """What a model of one class out of many says, and the candidates that it is compared with; all 0 where unknown."""

    bag_probability: Floats  # (B, q)
    bag_candidates: NDArray[np.bool_] | None  # (B, q)
    instance_probability: Floats  # (N, q + 1), the last for none of them; (N, q) where bags may have none as well
    instance_candidates: NDArray[np.bool_] | None  # (N, q + 1)
    given: NDArray[np.bool_] | None = None  # (B, q) the candidates that instances are judged by

    def hits(self) -> Floats:
        """Whether the most probable class of every bag is right (or a candidate), (B,) of 0, 1, NaN."""
        table = self.bag_candidates
        if table is None:
            return np.full(len(self.bag_probability), np.nan)
        right = table[np.arange(len(table)), self.bag_probability.argmax(axis=1)]
        return np.where(table.any(axis=1), right, np.nan)


@dataclass(frozen=True)
class Answers:
    """Everything by label column: K columns, one for a model of a single label."""

    bags: Bags
    labels: tuple[str, ...]
    several: bool
    bag_probability: Floats  # (B, K)
    bag_truth: Floats | None  # (B, K) of 0, 1, NaN
    instance_probability: Floats  # (N, K)
    instance_truth: Floats | None  # (N, K)
    stated: Evidence | None = None  # the truth about bags, where it is more than labels
    counts: ReportedCounts | None = None
    classes: ClassAnswers | None = None  # of a model of one class out of many, which then are the label columns
    words: tuple[str, str] = PLAIN_WORDS  # for the two classes: the user's own, where these are names
    given: bool = False  # whether instances are judged given the label of their bag
    outcomes: tuple["Answers", ...] = ()  # of a model of shares of several outcomes: each of them as a single label

    @property
    def of_shares(self) -> bool:
        """Whether bags state how many of their individuals are positive, and none states a label."""
        if self.outcomes:
            return True
        return self.counts is not None and self.stated is not None and not bool((self.stated.kind == LABEL).any())

    def stated_shares(self) -> tuple[Floats, Floats]:
        """The lowest and the highest share of positives that a bag states, (B,) each, NaN where it states none."""
        assert self.stated is not None
        stated, total = self.stated, self.bags.totals
        parts = []
        for end in (stated.first, stated.second):
            of_range = np.where(stated.kind == COUNT, end / total, np.nan)
            parts.append(np.where(stated.kind == FRACTION, stated.first, of_range))
        return parts[0], parts[1]

    def surprise(self) -> Floats:
        """How far off a stated share is, (B,): 1 at the end of the 90 % interval; 0 where nothing is stated.

        Of several outcomes the one that is farthest off counts.
        """
        if self.outcomes:
            return np.asarray(np.max([outcome.surprise() for outcome in self.outcomes], axis=0))
        assert self.counts is not None
        (low, high), (mean, lower, upper) = self.stated_shares(), self.counts.expected
        off = np.where(mean < low, low - mean, np.where(mean > high, mean - high, 0.0))
        reach = np.where(mean < low, upper - mean, mean - lower)
        found: Floats = np.nan_to_num(off / np.maximum(reach, 1.0 / self.bags.totals))
        return found

    def most_surprising(self, bag: int) -> "Answers":
        """The outcome that is farthest off in a bag; these answers where there is one only."""
        if not self.outcomes:
            return self
        return self.outcomes[int(np.argmax([outcome.surprise()[bag] for outcome in self.outcomes]))]

    def measured_truth(self) -> Floats | None:
        """The truth about bags that measures by label go by.

        Of a bag with several candidates only classes that it does not have are known; counting these alone would
        make any model of small probabilities look good, so such a bag counts for nothing.
        """
        table = None if self.classes is None else self.classes.bag_candidates
        if table is None or self.bag_truth is None:
            return self.bag_truth
        sure = np.sum(table, axis=1, keepdims=True) == 1
        return np.where(sure, self.bag_truth, np.nan) if sure.any() else None


def collect(
    model: Any, bags: Bags, y: Any, instance_y: Any, labels: Sequence[str] | None = None, given: Any = None
) -> Answers:
    """Ask the model once for everything.

    ``y`` is what ``fit`` takes: labels, or fractions or ranges of counts where the model was fitted to such, or an
    ``Evidence``. Of the latter a bag's label is whether it is stated to hold a positive. For a model of one class out
    of many ``y`` holds classes or candidate sets. ``given`` are labels that instances are judged by as well.
    A model of several outcomes takes their shares, or numbers, one column each.
    """
    if not model.of_classes and np.ndim(model.classes_) == 2 and model.kind_of_y != "label" and given is None:
        return _collect_outcomes(model, bags, y, instance_y, label_names(model, labels))
    asked = given_argument(model, given)
    if model.of_classes:
        return replace(_collect_classes(model, bags, y, instance_y, asked), given=given is not None)
    classes = model.classes_
    stated = None if y is None else _statement(model, bags, y)
    truth = (
        y if y is None else truth_of(_checked_labels(y, bags), classes) if stated is None else holds_positive(stated)
    )
    of_bags, of_instances = (_columns(positive_proba(part, classes)) for part in _probabilities(model, bags, asked))
    return Answers(
        bags=bags,
        labels=label_names(model, labels),
        several=np.ndim(classes) == 2,
        bag_probability=of_bags,
        bag_truth=None if truth is None else _columns(truth),
        instance_probability=of_instances,
        instance_truth=None
        if instance_y is None
        else _columns(instance_truth(_per_instance(instance_y, bags), classes)),
        stated=stated,
        counts=None if stated is None else _count_answers(model, bags, stated),
        words=class_words(classes),
        given=given is not None,
    )


def _probabilities(model: Any, bags: Bags, asked: dict[str, Any]) -> tuple[Floats, Floats]:
    """Of bags and of instances; with one pass over the rows where the model can."""
    if model.abilities.together and not asked:
        both: tuple[Floats, Floats] = model.predict_both_proba(bags)
        return both
    return model.predict_proba(bags), model.predict_instance_proba(bags, **asked)


def _collect_outcomes(model: Any, bags: Bags, y: Any, instance_y: Any, names: tuple[str, ...]) -> Answers:
    """Every outcome as the answers of a single label, and all of them together."""
    stated, expected = _stated_outcomes(model, bags, y, names), model.predict_fraction(bags)
    chance = positive_proba(model.predict_instance_proba(bags), model.classes_)
    inside = None if instance_y is None else instance_truth(_per_instance(instance_y, bags), model.classes_)
    each = tuple(
        Answers(
            bags=bags,
            labels=(name,),
            several=False,
            bag_probability=expected.mean[:, [k]],
            bag_truth=None if y is None else holds_positive(stated[k])[:, None],
            instance_probability=chance[:, [k]],
            instance_truth=None if inside is None else inside[:, [k]],
            stated=stated[k],
            counts=ReportedCounts(FractionSummary(*(part[:, k] for part in expected)), np.zeros(len(bags))),
        )
        for k, name in enumerate(names)
    )
    truth = None if y is None else np.hstack([outcome.bag_truth for outcome in each if outcome.bag_truth is not None])
    return Answers(bags, names, True, expected.mean, truth, chance, inside, outcomes=each)


def _stated_outcomes(model: Any, bags: Bags, y: Any, names: tuple[str, ...]) -> tuple[Evidence, ...]:
    if y is None:
        return (fraction(np.full(len(bags), np.nan), ids=bags.ids),) * len(names)
    stated = read_stated(y, bags, bags, CountReading(model.kind_of_y, 1.0))
    if len(stated.columns) != len(names):
        raise BagDataError(
            f"the model has {len(names)} outcomes ({', '.join(names)}), but y states {len(stated.columns)}; give one "
            "column of shares, or of numbers, for each."
        )
    return stated.columns


def class_words(classes: Any) -> tuple[str, str]:
    """The names of the two classes where they have some; "negative" and "positive" for numbers and truth values."""
    first, second = np.ravel(classes)[:2].tolist()
    return (first, second) if isinstance(first, str) and isinstance(second, str) else PLAIN_WORDS


def _collect_classes(model: Any, bags: Bags, y: Any, instance_y: Any, asked: dict[str, Any]) -> Answers:
    """Every class as a label column; a candidate that is not the only one is unknown there."""
    q = len(model.classes_)
    of_bags, of_instances = model.predict_proba(bags), model.predict_instance_proba(bags, **asked)
    table = None if y is None else _bag_table(model, bags, y)
    inside = None
    if instance_y is not None:
        numbers = class_numbers(_per_instance(instance_y, bags), model.instance_classes_)
        inside = numbers[:, None] == np.arange(len(model.instance_classes_))
    return Answers(
        bags=bags,
        labels=label_names(model),
        several=True,
        bag_probability=of_bags,
        bag_truth=None if table is None else _as_labels(table),
        instance_probability=of_instances[:, :q],
        instance_truth=None if inside is None else np.where(inside.any(axis=1)[:, None], inside[:, :q], np.nan),
        classes=ClassAnswers(of_bags, table, of_instances, inside, _given_table(model, bags, asked)),
    )


def _given_table(model: Any, bags: Bags, asked: dict[str, Any]) -> NDArray[np.bool_] | None:
    if not asked:
        return None
    shown = model.instance_classes_[:-1]
    q = len(model.classes_)
    return given_classes(asked["given"], bags, shown, keyed=True).filled(none=len(shown) < q)[:, :q]


def _bag_table(model: Any, bags: Bags, y: Any) -> NDArray[np.bool_]:
    if np.ndim(y) == 1 and not isinstance(y, dict | pd.Series) and not any(isinstance(entry, set) for entry in y):
        y = class_numbers(_checked_labels(y, bags), model.classes_)
        return np.asarray(y[:, None] == np.arange(len(model.classes_)))
    return candidate_sets(y, bags, keyed=True, classes=model.classes_).table


def _as_labels(table: NDArray[np.bool_]) -> Floats:
    known = np.sum(table, axis=1, keepdims=True)
    return np.where((known == 1) | (~table & (known > 0)), table, np.nan)


def _statement(model: Any, bags: Bags, y: Any) -> Evidence | None:
    stated = read_statement(y, bags, True, CountReading(model.kind_of_y, 1.0))
    if stated is not None and np.ndim(model.classes_) == 2:
        raise BagDataError(
            f"the model has {len(model.classes_)} label columns; compare it with labels, one per column."
        )
    return stated


def _count_answers(model: Any, bags: Bags, stated: Evidence) -> ReportedCounts | None:
    """Nothing for a model that cannot tell, or where only labels are stated."""
    if not model.abilities.fractions or not np.isin(stated.kind, (FRACTION, COUNT)).any():
        return None
    ranged = stated.kind == COUNT
    ends = (np.where(ranged, part, 0.0).astype(np.int64) for part in (stated.first, stated.second))
    return ReportedCounts(model.predict_fraction(bags), model.predict_count_proba(bags, *ends))


def label_names(model: Any, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Names of the label columns: those given, those of the table the model was fitted on, or made up."""
    found = model.classes_ if model.of_classes else given or model.label_names_ or ["label"]
    return tuple(str(name) for name in found)


def _checked_labels(y: Any, bags: Bags) -> NDArray[Any]:
    labels = bags.align(y) if isinstance(y, dict | pd.Series | pd.DataFrame) else np.asarray(y)
    if labels.shape[:1] != (len(bags),):
        raise BagDataError(f"y: expected one label per bag ({len(bags)}), got shape {labels.shape}.")
    return labels


def _per_instance(instance_y: Any, bags: Bags) -> NDArray[Any]:
    values = np.asarray(instance_y)
    if values.shape[:1] != (bags.n_instances,):
        raise BagDataError(
            f"instance_y: expected one label per instance ({bags.n_instances}), got shape {values.shape}."
        )
    return values


def _columns(values: Floats) -> Floats:
    return values if values.ndim == 2 else values[:, None]
