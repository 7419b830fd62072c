"""What each bag says about the number of positives in it, and the potentials that follow (theory section 2.1)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, kl_div

from bagwise._validation import check_hashable
from bagwise.bags import ragged_ranges
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NONE, LABEL, FRACTION, COUNT, CANDIDATES = range(5)


@dataclass(frozen=True, eq=False)
class Evidence:
    """One statement per bag: a label, a fraction with its confidence, a range of counts, candidate classes, or nothing.

    Made by ``label``, ``fraction``, ``count`` and ``Evidence.candidates``, joined by ``Evidence.concat``; kinds mix
    freely, except that candidate classes go together with labels alone. Indexing is by bag, so that scikit-learn's
    splitters can cut it.
    """

    kind: Ints
    first: Floats  # label; fraction; lowest count
    second: Floats  # unused; confidence; highest count
    sets: NDArray[Any] | None = None  # (B,) candidate classes as frozensets, None elsewhere

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def shape(self) -> tuple[int]:
        """(number of bags,)."""
        return (len(self),)

    def __getitem__(self, key: Any) -> Self:
        chosen = np.atleast_1d(np.arange(len(self))[key])
        sets = None if self.sets is None else self.sets[chosen]
        return type(self)(self.kind[chosen], self.first[chosen], self.second[chosen], sets)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """One object per bag: what scikit-learn looks at to see that these are not classes to stratify by."""
        array = np.empty(len(self), dtype=object)
        for bag in range(len(self)):
            array[bag] = self[bag]
        return array

    @classmethod
    def concat(cls, parts: Iterable["Evidence"]) -> Self:
        """The statements of several pieces of evidence, one after the other."""
        joined = list(parts)
        if not joined:
            raise BagDataError("Evidence.concat: there is nothing to join.")
        wrong = next((part for part in joined if not isinstance(part, Evidence)), None)
        if wrong is not None:
            raise BagDataError(
                f"Evidence.concat: found {wrong!r:.60}; expected pieces that bagwise.label, fraction, count or "
                "Evidence.candidates made."
            )
        sets = None
        if any(part.sets is not None for part in joined):
            sets = np.concatenate([part.classes_of_bags() for part in joined])
        kind, first, second = (
            np.concatenate([getattr(part, name) for part in joined]) for name in ("kind", "first", "second")
        )
        return cls(kind, first, second, sets)

    @classmethod
    def candidates(cls, sets: Iterable[Any]) -> Self:
        """Sets of classes one of which a bag has, such as [{"wren", "robin"}, {"wren"}, None]; None states nothing.

        "none of them" in a set says that the bag may be without an instance of any class. Beside candidates, a label
        0 says "none of the classes", and a label 1 "one of the classes".
        """
        if isinstance(sets, str | Mapping):
            raise BagDataError("Evidence.candidates: expected one set of classes per bag, such as [{'a', 'b'}, {'c'}].")
        made = [_candidates_of(entry, place) for place, entry in enumerate(sets)]
        column = np.empty(len(made), dtype=object)
        column[:] = made
        stated = np.array([one is not None for one in made], dtype=bool)
        nothing = np.full(len(made), np.nan)
        return cls(np.where(stated, CANDIDATES, NONE), nothing, nothing.copy(), column)

    def classes_of_bags(self) -> NDArray[Any]:
        """(B,) the candidate classes of every bag, None where it states none."""
        return np.full(len(self), None) if self.sets is None else self.sets


def _candidates_of(entry: Any, place: int) -> frozenset[Any] | None:
    """The set of one bag; a single class is a set of one."""
    if entry is None or (isinstance(entry, float) and np.isnan(entry)):
        return None
    names = [entry] if isinstance(entry, str) or not isinstance(entry, Collection) else entry
    check_hashable(names, f"entry {place}")
    if len(names) == 0:
        raise BagDataError(f"entry {place} has no candidate class; give None where nothing is known of the bag.")
    return frozenset(names)


def label(y: Any) -> Evidence:
    """Labels 0 (no positive), 1 (at least one positive) or NaN (nothing known), one per bag."""
    (values,) = _numbers(y)
    _refuse(~(np.isnan(values) | (values == 0) | (values == 1)), values, "a label is 0, 1 or NaN (missing)")
    return Evidence(np.where(np.isnan(values), NONE, LABEL), values, np.full(values.shape, np.nan))


def label_statements(evidence: Evidence, bags: Any) -> Floats:
    """Labels (0, 1, NaN) of bags that state labels or nothing; anything else is an error."""
    if len(evidence) != len(bags):
        raise BagDataError(f"given: {len(evidence)} statements for {len(bags)} bags; give one per bag.")
    other = np.flatnonzero(~np.isin(evidence.kind, (NONE, LABEL)))
    if len(other):
        raise BagDataError(
            f"given: bag {bags.ids[other[0]]!r} states a fraction or a count; only labels are taken here."
        )
    return np.where(evidence.kind == LABEL, evidence.first, np.nan)


def fraction(m: Any, confidence: Any = 1000.0, *, ids: Sequence[str] | None = None) -> Evidence:
    """Fractions of positives in [0, 1] (NaN: nothing known) and how surely they are known, one per bag.

    A confidence of 0 is none: the bag then states nothing. ``ids`` are names of the bags, for error messages.
    """
    values, trust = _numbers(m, confidence)
    missing = np.isnan(values) | (trust == 0)
    _refuse((values < 0) | (values > 1), values, "a fraction lies in [0, 1], or is NaN (missing)", ids)
    _refuse(~missing & ~(np.isfinite(trust) & (trust > 0)), trust, "a confidence is a number of at least 0", ids)
    return Evidence(np.where(missing, NONE, FRACTION), values, trust)


def guessed_fractions(annotations: Sequence[Collection[Any]], word: Any) -> Floats:
    """A guess at the fraction of every bag that shows ``word``, from the words its bag is annotated with.

    For pictures with captions, texts with keywords, baskets with tags: the parts of a bag are taken to be shared out
    evenly among its w words (Kück & de Freitas), so the guess is 1/w where ``word`` is among them, and 0 (certainly
    none) where it is not. A crude guess deserves a modest ``confidence``.
    """
    for bag, words in enumerate(annotations):
        check_hashable(words, f"entry {bag}")
        if isinstance(words, str) or len(set(words)) == 0:
            raise BagDataError(f"entry {bag}: expected the words of the annotation, at least one; found {words!r}.")
    return np.array([(word in set(words)) / len(set(words)) for words in annotations], dtype=np.float64)


def count(lo: Any, hi: Any, *, ids: Sequence[str] | None = None) -> Evidence:
    """Lowest and highest possible number of positives (NaN in either: nothing known), one pair per bag.

    ``ids`` are names of the bags, for error messages.
    """
    low, high = _numbers(lo, hi)
    missing = np.isnan(low) | np.isnan(high)
    for values in (low, high):
        whole = np.isfinite(values) & (np.floor(values) == values) & (values >= 0)
        _refuse(~missing & ~whole, values, "a count is a whole number of at least 0", ids)
    _refuse(~missing & (low > high), low, "the lowest number of positives must not exceed the highest", ids)
    return Evidence(np.where(missing, NONE, COUNT), low, high)


def _numbers(*given: Any) -> list[Floats]:
    """Vectors of one length from numbers (missing ones NaN), each one for all bags or one per bag."""
    try:
        plain = [np.asarray(values.detach().cpu() if hasattr(values, "detach") else values) for values in given]
        arrays = [np.where(pd.isna(values), np.nan, values).astype(np.float64) for values in plain]
    except (TypeError, ValueError):
        raise BagDataError("evidence: expected numbers, one per bag (NaN where nothing is known).") from None
    shapes = {array.shape for array in arrays if array.ndim > 0} or {(1,)}
    shape = min(shapes)
    if len(shapes) > 1 or len(shape) > 1:
        found = " and ".join(map(str, sorted(shapes)))
        raise BagDataError(f"evidence: expected one number per bag, got arrays of shape {found}.")
    return [np.broadcast_to(array, shape).copy() for array in arrays]


def _refuse(wrong: NDArray[np.bool_], values: Floats, rule: str, ids: Sequence[str] | None = None) -> None:
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        where = f"entry {place}" if ids is None else f"bag {ids[place]!r}"
        raise BagDataError(f"{where}: found {values[place]:g}; {rule}.")


def log_beta_density(m: Floats, share: Floats, confidence: Floats) -> Floats:
    """log of the Beta(χs + 1, χ(1 − s) + 1) density at m, right for any confidence χ.

    As χ grows its terms of order χ cancel, and with them all digits. They are taken together: with a = χs, b = χ(1 − s)
    and δ(x) = log Γ(x + 1) − (x log x − x + ½ log 2πx) for x > 0, 0 for x = 0, the logarithm is

        log(χ + 1) − χ KL(s ‖ m) + δ(χ) − δ(a) − δ(b) − ½ log(2π χ s(1 − s))         (0 < s < 1)
        log(χ + 1) − χ KL(s ‖ m)                                                     (s = 0 or 1)
    """
    inside = (share > 0) & (share < 1)
    safe = np.where(inside, share, 0.5)
    rest = _stirling_rest(confidence) - _stirling_rest(confidence * safe) - _stirling_rest(confidence * (1.0 - safe))
    spread = rest - 0.5 * np.log(2.0 * np.pi * confidence * safe * (1.0 - safe))
    return np.log1p(confidence) - confidence * _divergence(share, m) + np.where(inside, spread, 0.0)


def _divergence(s: Floats, m: Floats) -> Floats:
    """KL(s ‖ m) of two coins; it keeps its digits where they are alike."""
    return _excess(s, m) + _excess(1.0 - s, 1.0 - m)


def _excess(x: Floats, y: Floats) -> Floats:
    """x log(x/y) − x + y; with t = (y − x)/x it is −x (log(1 + t) − t), by its series where t is near 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(x > 0, (y - x) / x, np.inf)
    near = np.abs(t) < 0.01
    t = np.where(near, t, 0.0)
    series = x * t**2 * (1 / 2 - t * (1 / 3 - t * (1 / 4 - t * (1 / 5 - t * (1 / 6 - t * (1 / 7 - t / 8))))))
    excess: Floats = np.where(near, series, kl_div(x, y))
    return excess


def _stirling_rest(x: Floats) -> Floats:
    """δ(x): what Stirling's formula leaves of log Γ(x + 1)."""
    large = np.maximum(x, 10.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * large**2)) / large**2) / large**2) / large
    small = np.clip(x, np.finfo(float).tiny, 10.0)
    exact = gammaln(small + 1.0) - (small * np.log(small) - small + 0.5 * np.log(2.0 * np.pi * small))
    rest: Floats = np.where(x >= 10.0, series, exact)
    return rest


def log_potentials(evidence: Evidence, sizes: Ints, label_noise: float = 0.0) -> Floats:
    """log ψ_b(k) for k = 0 … n_b, bag after bag: the potentials of section 2.1 as one flat table.

    ``label_noise`` ε is the probability that a label is wrong: ψ = 1 − ε where it fits the count, ε where it does not.
    The normaliser of the Beta potential depends on k and stays.
    """
    entries = np.repeat(evidence.kind, sizes + 1)
    table: Floats = np.zeros(len(entries))
    for kind in np.intersect1d(evidence.kind, (LABEL, FRACTION, COUNT)):
        stating = np.flatnonzero(evidence.kind == kind)
        table[entries == kind] = _log_potentials_of_kind(kind, evidence[stating], sizes[stating], label_noise)
    return table


def _log_potentials_of_kind(kind: int, evidence: Evidence, sizes: Ints, label_noise: float) -> Floats:
    k: Floats = ragged_ranges(np.zeros(len(sizes), dtype=np.int64), sizes + 1).astype(np.float64)
    first: Floats = np.repeat(evidence.first, sizes + 1)
    if kind == LABEL:
        fits = np.where((k >= 1) == (first == 1), 1.0 - label_noise, label_noise)
    elif kind == COUNT:
        fits = ((k >= first) & (k <= np.repeat(evidence.second, sizes + 1))).astype(np.float64)
    else:
        n = np.repeat(sizes.astype(np.float64), sizes + 1)
        return log_beta_density(first, k / n, np.repeat(evidence.second, sizes + 1))
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(fits)
    return logs
