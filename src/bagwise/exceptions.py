"""Errors and warnings. Every message says what is wrong, where, what was expected and how to mend it."""

import inspect
import warnings
from typing import TYPE_CHECKING

from bagwise._lazy import lazy_names

if TYPE_CHECKING:
    from bagwise._convergence import ConvergenceWarning as ConvergenceWarning


class BagwiseError(Exception):
    """Anything bagwise refuses to do."""


class BagDataError(BagwiseError, ValueError):
    """The bags, the labels or a parameter cannot be used as they are."""


class ModelFileError(BagwiseError, ValueError):
    """A model file is damaged, foreign, too large or from a newer version."""


class NumericalError(BagwiseError, ArithmeticError):
    """A computation left the range of floating point numbers."""


class BagDataWarning(UserWarning):
    """The input can be used, but probably does not say what was intended."""


class LearnedNothingWarning(BagDataWarning):
    """A model was fitted, but its answers say nothing: they are all alike, or no better than a constant."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn where the user called: at the first line up the stack that is not the library's own (or its ``with``)."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module in ("bagwise", "contextlib") or module.startswith("bagwise.")


__getattr__, __dir__ = lazy_names(__name__, {"ConvergenceWarning": "bagwise._convergence"})
