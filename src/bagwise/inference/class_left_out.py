"""How probable the sets of bags are that took no part: two halves, each asked by a fit to the other (theory 16).

Guesses at the classes of bags are made together, so what the guess of a bag has led to cannot be taken away afterwards:
bags that are left out after a fit may prefer kernels that remember every row. Here they are left out before it. The
answer of every half is found from nothing, guesses included, and says how probable the sets of the other half are, the
class of a bag being one of all that there are.

Half of the bags make worse guesses than all of them, and one wrong guess leads to others. So this is a coarse judge: it
tells answers apart, and may speak against a kernel, but does not choose among kernels.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bag_models.classes import ProbitClasses
from bagwise.bag_models.rules import OneOfTheClasses
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features
from bagwise.inference.chunks import in_memory
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.inference.class_start import guess_classes
from bagwise.inference.loop import iterate
from bagwise.predict.bag_classes import bag_class_probability
from bagwise.predict.points import Fitted

MOST_ROWS = 30_000  # of all bags that are asked
_SWEEPS, _ENOUGH = 30, 2e-2  # of an answer, which need not settle for good, and how far it may still move
_LEAST = 1e-9  # probability of a set that counts as such: no bag decides alone
_FEWEST = 20  # bags whose gains have a standard error

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class StatedBags(NamedTuple):
    """Some bags, and the sets of their classes."""

    bags: Bags
    evidence: ClassEvidence

    def some(self, chosen: Ints) -> "StatedBags":
        """Some of them."""
        return StatedBags(self.bags[chosen], self.evidence.of_bags(chosen))


class LeftOut:
    """log P(set) of every bag that is asked, by some features and a fit to other bags; NaN where it cannot be found."""

    def __init__(self, features: Features, stated: StatedBags, seed: int) -> None:
        self._given = features, stated, seed

    @cached_property
    def _halves(self) -> list["_Half"]:
        features, stated, seed = self._given
        return [_Half(features, fitted, asked, seed) for fitted, asked in halves(stated, seed)]

    @cached_property
    def given_guesses(self) -> Floats:
        """By answers that take guesses for classes."""
        return _of_all([half.given_guesses for half in self._halves])

    @cached_property
    def given_sets(self) -> Floats:
        """By answers that leave the sets as they are, which are found from those given guesses."""
        found = self.given_guesses
        return found if np.isnan(found).any() else _of_all([half.given_sets for half in self._halves])

    @property
    def prefers_sets(self) -> bool:
        """Whether the second answer makes the sets more probable."""
        return bool(self.given_sets.sum() > self.given_guesses.sum())

    def refutes(self, other: "LeftOut", errors: float) -> bool:
        """Whether these features make the sets more probable than others do, by so many standard errors of the sum.

        Where the others lead to no answer they are refuted, too. Few bags refute nothing else.
        """
        gain = self.given_guesses - other.given_guesses
        if np.isnan(gain).any():
            return not np.isnan(self.given_guesses).any()
        return len(gain) >= _FEWEST and bool(gain.sum() > errors * np.sqrt(len(gain)) * gain.std(ddof=1))


def halves(stated: StatedBags, seed: int) -> list[tuple[StatedBags, StatedBags]]:
    """Bags that state something, dealt into two halves with sets alike: (fitted, asked) and the other way round.

    None where there is one bag only. Of more rows than are asked a random choice of bags takes part.
    """
    random = np.random.RandomState(seed)
    order = random.permutation(np.flatnonzero(stated.evidence.observed()[:, 0]))
    order = order[np.cumsum(stated.bags.sizes[order]) <= max(MOST_ROWS, stated.bags.sizes[order[:2]].sum())]
    order = order[np.lexsort(stated.evidence.table[order].T)]
    if len(order) < 2:
        return []
    one, other = (stated.some(np.sort(order[part::2])) for part in (0, 1))
    return [(one, other), (other, one)]


class _Half:
    """A fit to some bags, asked about others."""

    def __init__(self, features: Features, fitted: StatedBags, asked: StatedBags, seed: int) -> None:
        self._features, self._asked, self._seed = features, asked, seed
        self._chunks = in_memory(features, fitted.bags, ProbitClasses(fitted.evidence)).chunks
        self._engine = ClassPropagation(self._chunks, features.n_columns, features.device, seed)
        self._sets = self._engine.table

    @torch.no_grad()
    def given_guesses(self) -> Floats:
        """log P(set) of the others."""
        return self._settled(guess_classes(self._engine, self._chunks))

    @torch.no_grad()
    def given_sets(self) -> Floats:
        """The same, from there on."""
        return self._settled(self._sets)

    def _settled(self, table: torch.Tensor) -> Floats:
        self._engine.table = table
        self._engine.calm()
        trace = iterate(self._engine.step, name="log evidence", max_iter=_SWEEPS, tol=_ENOUGH)
        if trace.interrupted:
            raise KeyboardInterrupt
        fitted = Fitted(self._features, self._engine.posterior(), OneOfTheClasses(none=True), self._seed)
        return log_of_sets(fitted, *self._asked)


def log_of_sets(fitted: Fitted, bags: Bags, evidence: ClassEvidence) -> Floats:
    """Of the set of every bag; "none of them" is possible where one of the sets holds it."""
    table = np.ones_like(evidence.table)
    table[:, -1] = evidence.table[:, -1].any()
    found: Floats = (bag_class_probability(fitted, bags, table) * evidence.table).sum(1)
    logs: Floats = np.log(found.clip(_LEAST))
    return logs


def _of_all(halves_answer: Sequence[Callable[[], Floats]]) -> Floats:
    try:
        return np.concatenate([np.empty(0), *(answer() for answer in halves_answer)])
    except NumericalError:
        return np.array([np.nan])
