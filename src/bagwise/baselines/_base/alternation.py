"""Fit, label again, fit: until the labels stay or come back."""

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from bagwise.exceptions import ConvergenceWarning, warn_user

_Learned = TypeVar("_Learned")


def alternate(
    learn: Callable[[NDArray[Any]], _Learned],
    choose: Callable[[_Learned], NDArray[Any]],
    start: NDArray[Any],
    max_rounds: int,
) -> _Learned:
    """What was learned from the last choice; a choice that was there before would only start a circle."""
    choice, seen = start, {start.tobytes()}
    for _ in range(max_rounds):
        learned = learn(choice)
        choice = choose(learned)
        if choice.tobytes() in seen:
            return learned
        seen.add(choice.tobytes())
    warn_user(
        f"the alternation did not settle within {max_rounds} rounds; the last one is used. Increase max_rounds.",
        ConvergenceWarning,
    )
    return learned
