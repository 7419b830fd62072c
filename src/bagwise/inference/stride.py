"""How long the steps of an iteration over messages are: longer where they drift, shorter where they turn back."""

import math

FIRST_LENGTH = 0.5  # of the way from the messages to where they want to go
_LONGER, _SHORTER = 1.15, 0.7  # factors of the length where messages drift, and where they turn back
_SHORTEST, _LONGEST = 0.05, 2.0
_ALONG, _STRAIGHT = 0.5, 0.9  # cosines of two moves in a row above which messages drift, and do nothing but drift
_PATIENCE = 10  # sweeps within which the moves must reach a new low where messages do not drift


class Stride:
    """How far messages go on their way, from sweep to sweep.

    A sweep of length L multiplies what is left of the way along a mode of the iteration, whose own factor is λ, by
    1 − L (1 − λ). Where λ is close to 1 messages drift, and go faster the longer the sweeps are; where λ is below −1
    they turn back every time, and only short sweeps bring them to rest. The angle between two moves in a row shows
    which of the two rules. Moves that reach no new low for a while, though messages do not merely drift, mean that they
    go round: then sweeps become shorter for good.
    """

    def __init__(self, length: float = FIRST_LENGTH) -> None:
        self.length, self._longest = length, _LONGEST
        self._last_square = 0.0
        self._seen: list[tuple[float, float]] = []  # squares of moves, and cosines to the move before

    def adapt(self, along: float, square: float) -> None:
        """After a move was proposed: its product with the one before, and its square."""
        both = math.sqrt(square * self._last_square)
        cosine = along / both if both > 0 else 0.0
        self._last_square = square
        self._seen.append((square, cosine))
        if self._goes_round():
            self._longest = self.length = max(0.5 * self.length, _SHORTEST)
            self._seen = [(square, cosine)]
        elif cosine > _ALONG:
            self.length = min(_LONGER * self.length, self._longest)
        elif cosine < 0:
            self.length = max(_SHORTER * self.length, _SHORTEST)

    def _goes_round(self) -> bool:
        recent, before = self._seen[-_PATIENCE:], self._seen[:-_PATIENCE]
        if not before or min(recent)[0] < min(before)[0]:
            return False
        return min(cosine for _, cosine in recent) < _STRAIGHT
