"""A transformer of rows, used as a transformer of bags."""

from typing import Any, Self

import pandas as pd
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from bagwise._validation import check_feature_names
from bagwise.bags import Bags, as_bags


class PerInstance(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer (``StandardScaler``, ``PCA`` …) to every instance inside a pipeline of bags.

    The transformer sees the rows of all bags together and no labels: bag labels say nothing certain about rows. Where
    the columns have names it sees them too, and names its own columns if it can (``get_feature_names_out``).

    Parameters
    ----------
    transformer : scikit-learn transformer
        What to apply to the rows of all bags. It is copied; give one that has not been fitted.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted copy.
    n_features_in_ : int
        Number of features in ``fit``.
    feature_names_in_ : ndarray of str
        Names of the features in ``fit``; only there if they had names.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, bags: Any, y: Any = None) -> Self:
        """Fit the transformer on the instances of all bags."""
        given = as_bags(bags)
        check_feature_names(self, given.n_features, given.feature_names, reset=True)
        self.transformer_ = clone(self.transformer).fit(_table(given))
        return self

    def transform(self, bags: Any) -> Bags:
        """The same bags with transformed rows."""
        check_is_fitted(self, "transformer_")
        given = as_bags(bags)
        check_feature_names(self, given.n_features, given.feature_names, reset=False)
        named = given.feature_names is not None and hasattr(self.transformer_, "get_feature_names_out")
        names = self.transformer_.get_feature_names_out(given.feature_names) if named else None
        return given.with_features(_values(self.transformer_.transform(_table(given))), names)


def _table(bags: Bags) -> Any:
    """The rows as the transformer should see them: with the names of their columns, if they have any.

    A frame is a copy, for scikit-learn may write into a frame where it would not write into a read-only array.
    """
    rows = bags.in_memory().X
    if bags.feature_names is None or scipy.sparse.issparse(rows):
        return rows
    return pd.DataFrame(rows, columns=list(bags.feature_names), copy=True)


def _values(rows: Any) -> Any:
    """The rows without the names that scikit-learn's ``set_output`` may have invented."""
    return rows.to_numpy() if isinstance(rows, pd.DataFrame) else rows
