"""What each bag says about the number of positives in it, and the potentials that follow (theory section 2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from bagwise.bags import ragged_ranges
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NONE, LABEL, FRACTION, COUNT = range(4)


@dataclass(frozen=True)
class Evidence:
    """One statement per bag: a label, a fraction with its confidence, a range of counts, or nothing.

    Made by ``label``, ``fraction`` and ``count``, joined by ``Evidence.concat``; kinds mix freely. Indexing is by bag.
    """

    kind: Ints
    first: Floats  # label; fraction; lowest count
    second: Floats  # unused; confidence; highest count

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, key: Any) -> Self:
        chosen = np.atleast_1d(np.arange(len(self))[key])
        return type(self)(self.kind[chosen], self.first[chosen], self.second[chosen])

    @classmethod
    def concat(cls, parts: Sequence["Evidence"]) -> Self:
        """The statements of several pieces of evidence, one after the other."""
        if not parts:
            raise BagDataError("Evidence.concat: there is nothing to join.")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("kind", "first", "second")))


def label(y: Any) -> Evidence:
    """Labels 0 (no positive), 1 (at least one positive) or NaN (nothing known), one per bag."""
    values = np.atleast_1d(np.asarray(y, dtype=np.float64))
    _refuse(~(np.isnan(values) | (values == 0) | (values == 1)), values, "a label is 0, 1 or NaN (missing)")
    return Evidence(np.where(np.isnan(values), NONE, LABEL), values, np.full(values.shape, np.nan))


def fraction(m: Any, confidence: Any = 1000.0) -> Evidence:
    """Fractions of positives in [0, 1] (NaN: nothing known) and how surely they are known, one per bag."""
    values = np.atleast_1d(np.asarray(m, dtype=np.float64))
    trust = np.broadcast_to(np.asarray(confidence, dtype=np.float64), values.shape)
    _refuse((values < 0) | (values > 1), values, "a fraction lies in [0, 1], or is NaN (missing)")
    _refuse(~(np.isfinite(trust) & (trust > 0)), trust, "a confidence is a positive number")
    return Evidence(np.where(np.isnan(values), NONE, FRACTION), values, trust.copy())


def count(lo: Any, hi: Any) -> Evidence:
    """Lowest and highest possible number of positives (NaN in either: nothing known), one pair per bag."""
    low, high = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in (lo, hi)))
    missing = np.isnan(low) | np.isnan(high)
    _refuse(
        ~missing & (low > high), low, "a range of counts runs from its lowest to its highest number, and is not empty"
    )
    _refuse(~missing & ((low < 0) | (low % 1 != 0)), low, "a count is a whole number of at least 0")
    _refuse(~missing & (high % 1 != 0), high, "a count is a whole number of at least 0")
    return Evidence(np.where(missing, NONE, COUNT), low.copy(), high.copy())


def _refuse(wrong: NDArray[np.bool_], values: Floats, rule: str) -> None:
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise BagDataError(f"{rule}; entry {place} is {values[place]:g}.")


def log_potentials(evidence: Evidence, sizes: Ints, label_noise: float = 0.0) -> Floats:
    """log ψ_b(k) for k = 0 … n_b, bag after bag: the potentials of section 2.1 as one flat table.

    ``label_noise`` ε is the probability that a label is wrong: ψ = 1 − ε where it fits the count, ε where it does not.
    The normaliser of the Beta potential depends on k and stays.
    """
    k = ragged_ranges(np.zeros(len(sizes), dtype=np.int64), sizes + 1).astype(np.float64)
    n, kind, first, second = (
        np.repeat(values, sizes + 1) for values in (sizes, evidence.kind, evidence.first, evidence.second)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = np.log(np.where((k >= 1) == (first == 1), 1.0 - label_noise, label_noise))
        inside = np.log(((k >= first) & (k <= second)).astype(np.float64))
        share = k / n
        beta = (
            xlogy(second * share, first)
            + xlog1py(second * (1 - share), -first)
            - betaln(second * share + 1, second * (1 - share) + 1)
        )
    return np.select([kind == LABEL, kind == FRACTION, kind == COUNT], [fits, beta, inside], 0.0)
