"""Effects of bags beside the features: how large they are, and how much of them each kind of people has for itself."""

import math
from typing import NamedTuple


class GroupEffect(NamedTuple):
    """e = u + c in every bag, u common to the bag and c of each of its cells: N(0, s²(1 − q)) and N(0, s²q).

    A cell holds the individuals of a bag whose features are the same. Where s and q were learned there are several
    pairs of them, with weights that add up to one: what the data leave open. No pairs: no effect.
    """

    sizes: tuple[float, ...] = ()  # s, on the scale of the latent function
    shares: tuple[float, ...] = ()  # q
    weights: tuple[float, ...] = ()

    def __repr__(self) -> str:
        return f"GroupEffect(size={self.size:.3g}, common={self.common:.3g}, own={self.own:.3g})"

    @classmethod
    def of(cls, common: float, own: float = 0.0) -> "GroupEffect":
        """From the standard deviations of u and of c."""
        size = math.hypot(common, own)
        return cls((size,), (own**2 / size**2,), (1.0,)) if size > 0 else cls()

    @property
    def size(self) -> float:
        """Standard deviation of the whole effect."""
        return math.sqrt(math.fsum(w * s**2 for s, w in zip(self.sizes, self.weights, strict=True)))

    @property
    def own(self) -> float:
        """Standard deviation of the part that every cell has for itself."""
        return math.sqrt(math.fsum(w * q * s**2 for s, q, w in zip(*self, strict=True)))

    @property
    def common(self) -> float:
        """Standard deviation of the part that all cells of a bag share."""
        return math.sqrt(max(self.size**2 - self.own**2, 0.0))


NO_EFFECT = GroupEffect()
