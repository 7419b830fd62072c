"""Errors and warnings. Every message says what is wrong, where, what was expected and how to mend it."""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


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


class ConvergenceWarning(_SklearnConvergenceWarning):
    """An iteration stopped before it settled."""
