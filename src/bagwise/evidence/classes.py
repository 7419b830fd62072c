"""Classes of bags, out of many: one class, a set of candidates, "none of them" or nothing, and known instances."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.candidates import NONE_OF_THEM, CandidateSets, candidate_sets, refuse_useless, with_none
from bagwise.evidence.known import has_known
from bagwise.evidence.reading import joined_statement
from bagwise.evidence.statements import CANDIDATES, LABEL, NONE, Evidence
from bagwise.exceptions import BagDataError

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ClassEvidence:
    """Which classes every bag may have, (B, K + 1) with "none of them" last; a row of False states nothing."""

    table: Flags
    offsets: NDArray[np.int64]  # of the bags

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.table.shape[1]) - 1

    def of_bags(self, chosen: NDArray[np.int64]) -> "ClassEvidence":
        """The evidence of some of the bags."""
        sizes = np.diff(self.offsets)[chosen]
        return ClassEvidence(self.table[chosen], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def observed(self) -> Flags:
        """(B, K) whether a bag states anything, which is then about all columns."""
        stated = np.asarray(self.table.any(axis=1))
        return np.repeat(stated[:, None], self.n_classes, axis=1)

    def identity(self) -> bytes:
        """Equal for equal evidence."""
        return self.table.tobytes() + b"|" + self.offsets.tobytes()


class ClassInput(NamedTuple):
    """Evidence about classes, ready for inference, and how to name its answers."""

    evidence: ClassEvidence
    bags: Bags  # known instances are bags of their own
    classes: NDArray[Any]  # (K,)
    none: bool  # whether some bag may have none of the classes
    tight: bool = False  # no count is pinned down


def read_classes(y: Any, bags: Bags, *, keyed: bool) -> ClassInput:
    """Interpret ``y``: an ``Evidence``, a (B, K) table of 0/1, one set of classes per bag, or one class per bag.

    The name "none of them" in a set stands for a bag without an instance of any class.
    """
    statement = joined_statement(y, bags, keyed)
    read = _none_apart(candidate_sets(y, bags, keyed=keyed)) if statement is None else _stated_sets(statement, bags)
    none = bool(read.table[:, -1].any())
    shown = CandidateSets(read.table, read.observed, with_none(read.classes)) if none else read.without_none()
    refuse_useless(shown, bags)
    together, table = with_known_apart(bags, read.table)
    return ClassInput(ClassEvidence(table, together.offsets), together, read.classes, none)


class GivenClasses(NamedTuple):
    """What bags state about themselves when a fitted model is asked."""

    table: Flags  # (B, K + 1), "none of them" last
    observed: Flags  # (B,)

    def filled(self, none: bool) -> Flags:
        """The table with every class for bags that state nothing; with ``none``, "none of them" is among these."""
        return np.where(
            self.observed[:, None], self.table, np.arange(self.table.shape[1]) < self.table.shape[1] - (not none)
        )


def given_classes(given: Any, bags: Bags, classes: NDArray[Any], *, keyed: bool) -> GivenClasses:
    """What ``given`` says in terms of the K classes of a fitted model, in any form that ``read_classes`` takes."""
    statement = joined_statement(given, bags, keyed)
    if statement is not None:
        read = _stated_sets(statement, bags, classes)
        found = GivenClasses(read.table, read.observed)
    else:
        without = np.ndim(given) == 2 and np.shape(given)[1] == len(classes)
        sets = candidate_sets(given, bags, keyed=keyed, classes=classes if without else with_none(classes))
        last = np.zeros((len(bags), int(without)), dtype=bool)
        found = GivenClasses(np.column_stack([sets.table, last]), sets.observed)
    empty = np.flatnonzero(found.observed & ~found.table.any(axis=1))
    if len(empty):
        raise BagDataError(
            f"bag {bags.ids[empty[0]]!r} has no candidate class; give None where nothing is known of it."
        )
    return found


# ---------------------------------------------------------------- forms of y


class _Read(NamedTuple):
    table: Flags  # (B, K + 1), "none of them" last
    observed: Flags  # (B,)
    classes: NDArray[Any]  # (K,)

    def without_none(self) -> CandidateSets:
        return CandidateSets(self.table[:, :-1], self.observed, self.classes)


def _none_apart(sets: CandidateSets) -> _Read:
    """The classes, and "none of them" as the last column of the table."""
    none = np.array([name == NONE_OF_THEM for name in sets.classes.tolist()], dtype=bool)
    last = sets.table[:, none].any(axis=1)
    return _Read(np.column_stack([sets.table[:, ~none], last]), sets.observed, sets.classes[~none])


def _stated_sets(statement: Evidence, bags: Bags, classes: NDArray[Any] | None = None) -> _Read:
    """Statements as sets: a label 0 is "none of them", a label 1 any of the classes."""
    if len(statement) != len(bags):
        raise BagDataError(f"y has {len(statement)} statements, but there are {len(bags)} bags; give one per bag.")
    kind, first = statement.kind, statement.first
    wrong = np.flatnonzero(~np.isin(kind, (NONE, LABEL, CANDIDATES)))
    if len(wrong):
        raise BagDataError(
            f"bag {bags.ids[wrong[0]]!r} states a fraction or a count beside bags that state candidate classes, and "
            "nothing says of which class; leave such bags out, or fit every class by itself."
        )
    sets = statement.classes_of_bags().tolist()
    entries = [None if one is None else one - {NONE_OF_THEM} for one in sets]
    read = candidate_sets(entries, bags, keyed=False, classes=classes)
    none = np.array([one is not None and NONE_OF_THEM in one for one in sets]) | ((kind == LABEL) & (first == 0))
    table = read.table | ((kind == LABEL) & (first == 1))[:, None]
    return _Read(np.column_stack([table, none]), kind != NONE, read.classes)


# ---------------------------------------------------------------- known instances


def with_known_apart(bags: Bags, table: Flags) -> tuple[Bags, Flags]:
    """Bags whose known instances stand apart, each as a bag of its own, and the candidates (B', K + 1) of all.

    An instance known to be 0 has none of the classes: a bag of one with the set {none of them}. One known to be 1 has
    the class of its bag, which must be a single one, c: it is a bag of one with the set {c}, and the other instances of
    the bag are a bag with the set {c, none of them}, for they need not show c any more. Both are exact.
    """
    if not has_known(bags):
        return bags, table
    _check_known(bags, table)
    known, apart = bags.known, np.flatnonzero(~np.isnan(bags.known))
    shown = np.add.reduceat((known == 1).astype(np.int64), bags.offsets[:-1]) > 0
    rest = table.copy()
    rest[shown, -1] = True
    own = np.where(
        (known[apart] == 1)[:, None], table[bags.index[apart]], np.arange(table.shape[1]) == table.shape[1] - 1
    )
    group = bags.index.copy()
    group[apart] = len(bags) + np.arange(len(apart))
    together = Bags(bags.X, group, feature_names=bags.feature_names)
    return together, np.concatenate([rest, own])[np.array([int(name) for name in together.ids])]


def _check_known(bags: Bags, table: Flags) -> None:
    """A known instance must fit its bag."""
    several = np.flatnonzero((bags.known == 1) & ((table.sum(axis=1) != 1) | table[:, -1])[bags.index])
    if len(several):
        bag = int(bags.index[several[0]])
        raise BagDataError(
            f"row {bags.rows[several[0]]} of the table is known to show the class of bag {bags.ids[bag]!r}, but "
            f"{int(table[bag, :-1].sum())} classes are candidates of that bag. Give the bag the one class that the "
            "instance shows."
        )
    hidden = np.add.reduceat((bags.known == 0).astype(np.int64), bags.offsets[:-1]) == bags.sizes
    wrong = np.flatnonzero(hidden & table.any(axis=1) & ~table[:, -1])
    if len(wrong):
        raise BagDataError(
            f"bag {bags.ids[wrong[0]]!r} has a class, but all of its {bags.sizes[wrong[0]]} instances are known to "
            "have none. Correct one of the two."
        )
