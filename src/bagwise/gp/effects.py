"""Effects of bags beside the features: how large they are, and how much of them each kind of people has for itself."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bagwise.evidence.groups import members

Floats = NDArray[np.float64]


class GroupEffect(NamedTuple):
    """e = u + c in every bag, u common to the bag and c of each of its cells: N(0, s²(1 − q)) and N(0, s²q).

    A cell holds the individuals of a bag whose features are the same. Where s and q were learned there are several
    pairs of them, with weights that add up to one: what the data leave open. No pairs: no effect. Where the features
    name groups (``columns`` of 0 and 1), the effects of a group are e times its factor.
    """

    sizes: tuple[float, ...] = ()  # s, on the scale of the latent function
    shares: tuple[float, ...] = ()  # q
    weights: tuple[float, ...] = ()
    columns: tuple[int, ...] = ()  # numbers of the features that name groups
    factors: tuple[tuple[float, ...], ...] = ()  # of every group one for each s; their mean square over groups is 1

    def __repr__(self) -> str:
        groups = "".join(f", {size:.3g}" for size in self.by_group)[2:]
        by_group = f", by_group=({groups})" if groups else ""
        return f"GroupEffect(size={self.size:.3g}, common={self.common:.3g}, own={self.own:.3g}{by_group})"

    @classmethod
    def of(cls, common: float, own: float = 0.0) -> "GroupEffect":
        """From the standard deviations of u and of c."""
        size = math.hypot(common, own)
        return cls((size,), (own**2 / size**2,), (1.0,)) if size > 0 else cls()

    @classmethod
    def of_groups(cls, sizes: Floats, shares: Floats, weights: Floats, columns: tuple[int, ...]) -> "GroupEffect":
        """From the sizes (K, G) of the groups; one column and no names of groups: one size for all."""
        whole = np.sqrt(np.square(sizes).mean(axis=1))
        factors = (tuple(row) for row in (sizes / whole[:, None]).T.tolist()) if columns else ()
        return cls(
            tuple(whole.tolist()), tuple(shares.tolist()), tuple(weights.tolist()), tuple(columns), tuple(factors)
        )

    @property
    def size(self) -> float:
        """Standard deviation of the whole effect; where groups have sizes of their own, their quadratic mean."""
        return math.sqrt(math.fsum(w * s**2 for s, w in zip(self.sizes, self.weights, strict=True)))

    @property
    def own(self) -> float:
        """Standard deviation of the part that every cell has for itself."""
        parts = zip(self.sizes, self.shares, self.weights, strict=True)
        return math.sqrt(math.fsum(w * q * s**2 for s, q, w in parts))

    @property
    def common(self) -> float:
        """Standard deviation of the part that all cells of a bag share."""
        return math.sqrt(max(self.size**2 - self.own**2, 0.0))

    @property
    def by_group(self) -> tuple[float, ...]:
        """Standard deviation of the whole effect in every group, in the order of ``columns``; empty without groups."""
        squares = np.multiply(self.weights, np.square(self.sizes))
        return tuple(math.sqrt(float(np.square(factor) @ squares)) for factor in self.factors)

    def relative(self, X: Any) -> Floats:
        """(n,) how large the effects of rows are, compared with ``size``; 1 in rows that belong to no group."""
        if not self.columns:
            return np.ones(X.shape[0])
        return self._of_rows(X, np.array(self.by_group)[:, None] / self.size)[:, 0]

    def row_factors(self, X: Any, chosen: NDArray[np.int64]) -> Floats:
        """(n, Q) or (n, 1): the factors of rows where every draw has one of the sizes."""
        if not self.columns:
            return np.ones((X.shape[0], 1))
        return self._of_rows(X, np.array(self.factors)[:, chosen])

    def _of_rows(self, X: Any, factors: Floats) -> Floats:
        member = members(X, self.columns)
        found: Floats = member @ factors + (1.0 - member.sum(axis=1, keepdims=True))
        return found


NO_EFFECT = GroupEffect()
