"""The one warning that is scikit-learn's as well; it stands alone because importing scikit-learn takes a second."""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


class ConvergenceWarning(_SklearnConvergenceWarning):
    """An iteration stopped before it settled."""


ConvergenceWarning.__module__ = "bagwise.exceptions"  # where users find it
