"""What there is to label: bags or instances with what is known of them, in the form that ``fit`` takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.candidates import candidate_sets
from bagwise.exceptions import BagDataError
from bagwise.labelling.journal import JournalEntry, Key, agreed
from bagwise.labelling.question import ONE_OF, TWO, Question
from bagwise.metrics import truth_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pool:
    """Items (bags, or rows of ``bags.X``) by number, and what was known of them before anybody was asked."""

    bags: Bags
    what: str
    question: Question
    before: Floats  # (items, values) of 0, 1 and NaN
    y: Any = None  # what the bags state, where that is not what is asked: instances are labelled, or candidates known
    classes: Any = None  # the two class values of a single label
    _numbers: dict[Key, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.before)

    def key(self, number: int) -> Key:
        """How an item is called in the journal; a number that no item has is an error."""
        if not 0 <= number < len(self):
            raise BagDataError(f"item {number}: there are {len(self)} {self.what}, numbered from 0.")
        if self.what == "bags":
            return self.bags.ids[number], None
        return self.bags.ids[int(self.bags.index[number])], int(self.bags.rows[number])

    def number(self, key: Key) -> int:
        """The number of an item; one that is not there is an error."""
        if not self._numbers:
            self._numbers.update({self.key(number): number for number in range(len(self))})
        if key not in self._numbers:
            place = "" if key[1] is None else f", row {key[1]}"
            raise BagDataError(
                f"the answers speak of bag {key[0]!r}{place}, which is not in the data; name another file with "
                "--answers, or the data that were labelled."
            )
        return self._numbers[key]

    def rows(self, number: int) -> Ints:
        """The rows of ``bags.X`` that belong to an item."""
        if self.what == "instances":
            return np.array([number])
        return np.arange(self.bags.offsets[number], self.bags.offsets[number + 1])

    def known(self, answers: Mapping[Key, Sequence[JournalEntry]]) -> Floats:
        """(items, values) what is known of every item now."""
        values = self.before.copy()
        for key, entries in answers.items():
            found = agreed(entries)
            if found is not None:
                settled = self.question.kind != ONE_OF or sum(found) == 1
                values[self.number(key)] = found if settled else np.nan
        return values

    def evidence(self, values: Floats) -> tuple[Bags, Any] | None:
        """Bags and ``y`` for a fit; None where nothing could be learned from them yet."""
        if self.what == "instances":
            y = np.full(len(self.bags), np.nan) if self.y is None else self.y
            return self.bags.with_known(values[:, 0]), y
        if self.question.kind == TWO:
            there = ~np.isnan(values[:, 0])
            y = np.full(len(values), None, dtype=object)
            y[there] = np.asarray(self.classes)[values[there, 0].astype(int)]
            return (self.bags, y) if len(np.unique(values[there, 0])) == 2 else None
        if self.question.kind == ONE_OF and self.y is not None:
            values = np.where(np.isnan(values).any(axis=1, keepdims=True), self.y, values)
        if np.isnan(values).all():
            return None
        return self.bags, pd.DataFrame(values, index=list(self.bags.ids), columns=list(self.question.options))


def make_pool(model: Any, bags: Bags, y: Any, what: str, question: Question) -> Pool:
    """The pool of a fitted model and some bags; ``y`` is what the table states about them, or None."""
    if what == "instances":
        known = np.full(bags.n_instances, np.nan) if bags.known is None else np.array(bags.known)
        return Pool(bags, what, question, known[:, None], y)
    if y is None:
        before = np.full((len(bags), question.n_values), np.nan)
    elif question.kind == ONE_OF:
        sets = candidate_sets(y, bags, keyed=True, classes=model.classes_)
        single = sets.table.sum(axis=1, keepdims=True) == 1
        stated = np.where(sets.observed[:, None], sets.table, np.nan)
        return Pool(bags, what, question, np.where(single, stated, np.nan), stated)
    else:
        before = np.asarray(truth_of(y, model.classes_)).reshape(len(bags), -1)
    return Pool(bags, what, question, before, None, model.classes_)
