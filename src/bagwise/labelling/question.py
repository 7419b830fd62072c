"""What a person is asked, and what counts as an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.exceptions import BagDataError

TWO, SEVERAL, ONE_OF = "two", "several", "one of"


@dataclass(frozen=True)
class Question:
    """The options, and how they may be chosen.

    "two": the negative and the positive class, values (0,) or (1,). "several": label columns, any of which may be
    positive, one value each. "one of": classes of which one is right, one value each and a single 1.
    """

    kind: str
    options: tuple[str, ...]

    @property
    def n_values(self) -> int:
        """How many numbers an answer has."""
        return 1 if self.kind == TWO else len(self.options)

    def checked(self, values: Any) -> tuple[int, ...]:
        """An answer as numbers 0 and 1; anything else is an error."""
        given = tuple(values) if isinstance(values, list | tuple) else ()
        plain = all(isinstance(value, int) and not isinstance(value, bool) and value in (0, 1) for value in given)
        if len(given) != self.n_values or not plain or (self.kind == ONE_OF and sum(given) != 1):
            rule = " and a single 1" if self.kind == ONE_OF else ""
            raise BagDataError(f"answer {values!r}: expected a list of {self.n_values} numbers, 0 or 1{rule}.")
        return given

    def text(self, values: Sequence[float]) -> str:
        """An answer in words."""
        if self.kind == TWO:
            return self.options[int(values[0])]
        return ", ".join(option for option, value in zip(self.options, values, strict=True) if value == 1) or "none"


def question_for(model: Any, what: str, labels: Sequence[str]) -> Question:
    """What a fitted model wants to know about bags or instances; a model that cannot learn it is refused."""
    card = model.card
    if what == "instances":
        if "known" not in card.evidence or np.ndim(model.classes_) == 2:
            raise BagDataError(
                f"--what instances: {type(model).__name__} does not learn from single instances"
                f"{' of several label columns' if np.ndim(model.classes_) == 2 else ''}; label bags, or fit bag-gp."
            )
        return Question(TWO, _two(model))
    if model.of_classes:
        return Question(ONE_OF, tuple(str(name) for name in model.classes_))
    if model.kind_of_y != "label":
        raise BagDataError(
            f"the model was fitted to evidence of the kind {model.kind_of_y}, which a yes or no cannot extend; label "
            "--what instances, or fit a model with --label."
        )
    if np.ndim(model.classes_) == 2:
        return Question(SEVERAL, tuple(labels))
    return Question(TWO, _two(model))


def _two(model: Any) -> tuple[str, str]:
    """The classes as they are called in the data; numbers with a word that says which is which."""
    negative, positive = np.ravel(model.classes_)[:2].tolist()
    if isinstance(negative, str):
        return negative, str(positive)
    return f"negative ({negative:g})", f"positive ({positive:g})"
