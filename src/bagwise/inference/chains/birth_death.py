"""Which kernels are active in one chain: birth, death and swap moves in O(k²) (theory (8.4), (8.6), (8.7)).

With H = Ψᵀ Ψ over the informed instances, P = Ψᵀ Ψ + ε I over all of them, c = Ψᵀ z, and all of them cut down to the k
active columns g, A = H_gg + P_gg/δ², the weights integrated out,

    log p(γ | δ², z) = log B(k + a, M − k + b) − ½ [log det A + k log δ² − log det P_gg] + ½ cᵀ A⁻¹ c            (8.4)

What is kept is which columns are active, A⁻¹ and P_gg⁻¹ over them, and w = A⁻¹ c. Let j enter, u = A⁻¹ A_gj:

    d_j = A_jj − A_gjᵀ u,    r_j = c_j − A_gjᵀ w;    det A grows by the factor d_j, cᵀA⁻¹c by r_j²/d_j           (8.7)

and let i leave: det A is multiplied by (A⁻¹)_ii, cᵀA⁻¹c falls by w_i²/(A⁻¹)_ii. A swap is both at once: with i gone,
d_j rises by u_i²/(A⁻¹)_ii and r_j by u_i w_i/(A⁻¹)_ii. P needs its determinant only. So one product with each inverse
prices all three moves, and an accepted one changes the inverses by terms of rank one:

    leave:  A⁻¹ ← A⁻¹ − A⁻¹_·i A⁻¹_i· / (A⁻¹)_ii        enter:  A⁻¹ ← A⁻¹ + (u, −1)(u, −1)ᵀ / d_j

Inverses are kept rather than Cholesky factors because both directions are then equally cheap; they are computed afresh
in every sweep, so that rounding errors of a few dozen moves are all there can be. The arrays are small (k is ten or
twenty), and what a move costs is mostly the calls: hence NumPy, and scalars wherever scalars do.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf
from scipy.special import betaln

from bagwise.exceptions import NumericalError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ROOM = 8  # slots by which the inverses grow
_SINGULAR = (
    "the instances cannot tell the active kernels apart (a matrix is not positive definite); use a larger jitter, a "
    "shorter lengthscale or fewer centres."
)
_MOVE = 1.0 / 3.0  # chance of a birth, of a death and of a swap, where all three are possible


class Dictionary:
    """What all chains share: the Gram matrices of the M columns and the prior of their selection."""

    def __init__(self, likelihood: Floats, prior: Floats, a: float, b: float) -> None:
        self.size = len(prior)
        self.likelihood, self.prior = likelihood, prior  # H and P, (M, M)
        self.diagonals = list(zip(likelihood.diagonal().tolist(), prior.diagonal().tolist(), strict=True))
        self.birth_chance, self.death_chance, self.birth = _prices(self.size, a, b)


def _prices(size: int, a: float, b: float) -> tuple[list[float], list[float], list[float]]:
    """By k = 0 … M: chances to propose a birth and a death, and the log ratio of prior and proposals from k to k + 1.

    (8.6); from k + 1 back to k the log ratio is the negative.
    """
    k = np.arange(size + 1)
    birth = np.where(k == 0, 1.0, np.where(k == size, 0.0, _MOVE))
    death = np.where(k == 0, 0.0, np.where(k == size, 1.0, _MOVE))
    there, back = birth[:-1] / (size - k[:-1]), death[1:] / k[1:]
    ratio = np.diff(betaln(k + a, size - k + b)) + np.log(back) - np.log(there)
    return birth.tolist(), death.tolist(), ratio.tolist()


class Entrance(NamedTuple):
    """What it means that column j enters; every pair is for A and for P."""

    projected: tuple[Floats, Floats]  # u
    remainder: tuple[float, float]  # d_j
    surprise: float  # r_j


class KernelSelection:
    """The active columns of one chain."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.order = np.arange(dictionary.size)  # the first ``count`` are active
        self.count = 0
        self._inverses = (np.zeros((_ROOM, _ROOM)), np.zeros((_ROOM, _ROOM)))
        self.fit = np.zeros(_ROOM)  # w

    @property
    def active(self) -> Ints:
        """(k,) the active columns."""
        return self.order[: self.count]

    def activate(self, active: Bools) -> None:
        """Make the columns where ``active`` (M,) is true the active ones."""
        self.order = np.argsort(~active, kind="stable")
        self.count = int(active.sum())

    def grams(self) -> tuple[Floats, Floats]:
        """H and P over the active columns, (k, k) each."""
        where = self.active[:, None], self.active
        return self.dictionary.likelihood[where], self.dictionary.prior[where]

    def refresh(self, delta2: float, pull: Floats) -> None:
        """Everything from scratch, for a new δ² and a new c = Ψᵀz (M,)."""
        self._precision, self._half_log = 1.0 / delta2, 0.5 * math.log(delta2)
        self._pull, k = pull, self.count
        if k + 1 > len(self.fit):
            self._grow(k + _ROOM)
        likelihood, prior = self.grams()
        fresh = _inverse(np.array([likelihood + prior / delta2, prior]))
        self._inverses[0][:k, :k], self._inverses[1][:k, :k] = fresh
        self.fit[:k] = self._inverses[0][:k, :k] @ pull[self.active]

    def explained(self) -> float:
        """cᵀ A⁻¹ c."""
        return float(self.fit[: self.count] @ self.active_pull)

    def rescale(self, factor: float) -> None:
        """c ← factor · c."""
        self._pull = self._pull * factor
        self.fit[: self.count] *= factor

    @property
    def active_pull(self) -> Floats:
        """(k,) c of the active columns."""
        own: Floats = self._pull[self.active]
        return own

    def move(self, uniforms: Floats) -> int:
        """One move for every row of ``uniforms`` (n, 4); how many were accepted."""
        accepted = 0
        dictionary, size = self.dictionary, self.dictionary.size
        for kind, leaving, entering, luck in uniforms.tolist():
            k = self.count
            birth = dictionary.birth_chance[k]
            slot, place = int(leaving * k), k + int(entering * (size - k))
            if kind < birth:
                accepted += self._birth(place, luck)
            elif kind < birth + dictionary.death_chance[k]:
                accepted += self._death(slot, luck)
            else:
                accepted += self._swap(slot, place, luck)
        return accepted

    # ------------------------------------------------------------ moves

    def _birth(self, place: int, luck: float) -> bool:
        entrance = self._enter(int(self.order[place]))
        if min(entrance.remainder) <= 0.0:
            return False
        log_ratio = self.dictionary.birth[self.count] + self._worth(entrance)
        if luck >= _chance(log_ratio):
            return False
        self._exchange(self.count, place)
        self._append(entrance)
        return True

    def _death(self, slot: int, luck: float) -> bool:
        log_ratio = -self.dictionary.birth[self.count - 1] - self._loss(slot)
        if luck >= _chance(log_ratio):
            return False
        self._remove(slot)
        return True

    def _swap(self, slot: int, place: int, luck: float) -> bool:
        entrance = self._without(slot, self._enter(int(self.order[place])))
        if min(entrance.remainder) <= 0.0:
            return False
        log_ratio = self._worth(entrance) - self._loss(slot)
        if luck >= _chance(log_ratio):
            return False
        last = self.count - 1
        u, v = entrance.projected
        u[slot], v[slot] = u[last], v[last]  # as ``_remove`` orders the slots
        self._remove(slot)
        self._exchange(last, place)
        self._append(entrance._replace(projected=(u[:last], v[:last])))
        return True

    # ------------------------------------------------------------ what moves are made of

    def _enter(self, j: int) -> Entrance:
        k, active, dictionary = self.count, self.active, self.dictionary
        (inverse_a, inverse_p), (h_jj, p_jj) = self._inverses, dictionary.diagonals[j]
        p = dictionary.prior[j].take(active)
        a = dictionary.likelihood[j].take(active)
        a += p * self._precision
        u, v = inverse_a[:k, :k].dot(a), inverse_p[:k, :k].dot(p)
        remainder = h_jj + p_jj * self._precision - float(a.dot(u)), p_jj - float(p.dot(v))
        return Entrance((u, v), remainder, float(self._pull[j]) - float(a.dot(self.fit[:k])))

    def _without(self, slot: int, entrance: Entrance) -> Entrance:
        """The same once the column in ``slot`` has left."""
        own = [float(inverse[slot, slot]) for inverse in self._inverses]
        through = [float(u[slot]) for u in entrance.projected]
        remainder = [d + t * t / o for d, t, o in zip(entrance.remainder, through, own, strict=True)]
        k, surprise = self.count, entrance.surprise + through[0] * float(self.fit[slot]) / own[0]
        u, v = (
            part - inverse[:k, slot] * (t / o)
            for part, inverse, t, o in zip(entrance.projected, self._inverses, through, own, strict=True)
        )
        return Entrance((u, v), (remainder[0], remainder[1]), surprise)

    def _worth(self, entrance: Entrance) -> float:
        """What the column that enters adds to (8.4), the prior of γ apart."""
        d, e = entrance.remainder
        return 0.5 * (math.log(e / d) + entrance.surprise**2 / d) - self._half_log

    def _loss(self, slot: int) -> float:
        """What the column that leaves takes from (8.4), the prior of γ apart: d = 1/(A⁻¹)_ii, r = w_i/(A⁻¹)_ii."""
        own_a, own_p = (float(inverse[slot, slot]) for inverse in self._inverses)
        return 0.5 * (math.log(own_a / own_p) + float(self.fit[slot]) ** 2 / own_a) - self._half_log

    def _append(self, entrance: Entrance) -> None:
        k = self.count
        if k + 1 > len(self.fit):
            self._grow(k + _ROOM)
        for inverse, u, d in zip(self._inverses, entrance.projected, entrance.remainder, strict=True):
            scaled = u / d
            inverse[:k, :k] += scaled[:, None] * u
            inverse[k, :k] = inverse[:k, k] = -scaled
            inverse[k, k] = 1.0 / d
        step = entrance.surprise / entrance.remainder[0]
        self.fit[:k] -= entrance.projected[0] * step
        self.fit[k] = step
        self.count = k + 1

    def _remove(self, slot: int) -> None:
        """Take a column out; the last active one moves into its slot."""
        k, last = self.count, self.count - 1
        for number, inverse in enumerate(self._inverses):
            away = inverse[:k, slot].copy()
            share = away / away[slot]
            if number == 0:
                self.fit[:k] -= share * self.fit[slot]
            inverse[:k, :k] -= share[:, None] * away
            inverse[slot, :k] = inverse[last, :k]
            inverse[:k, slot] = inverse[:k, last]
            inverse[slot, slot] = inverse[last, last]
        self.fit[slot] = self.fit[last]
        self._exchange(slot, last)
        self.count = last

    def _exchange(self, one: int, other: int) -> None:
        self.order[one], self.order[other] = self.order[other], self.order[one]

    def _grow(self, room: int) -> None:
        """Make room for so many active columns."""
        old, fit = self._inverses, self.fit
        width = len(fit)
        self._inverses, self.fit = (np.zeros((room, room)), np.zeros((room, room))), np.zeros(room)
        self.fit[:width] = fit
        for new, before in zip(self._inverses, old, strict=True):
            new[:width, :width] = before


def _chance(log_ratio: float) -> float:
    return 1.0 if log_ratio >= 0.0 else math.exp(log_ratio)


def _inverse(blocks: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.inv(blocks), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise NumericalError(_SINGULAR) from None


def cholesky_of(block: Floats) -> Floats:
    """The lower factor of A or P over the active columns (by LAPACK itself: the matrix is small, and time is short)."""
    lower, info = dpotrf(block, lower=1)
    if info != 0:
        raise NumericalError(_SINGULAR)
    factor: Floats = lower
    return factor
