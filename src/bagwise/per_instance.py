"""A transformer of rows, used as a transformer of bags."""

from typing import Any, Self

from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags, as_bags


class PerInstance(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer (``StandardScaler``, ``PCA`` …) to every instance inside a pipeline of bags.

    The transformer sees the rows of all bags together and no labels: bag labels say nothing certain about rows.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, bags: Any, y: Any = None) -> Self:
        """Fit the transformer on the instances of all bags."""
        self.transformer_ = clone(self.transformer).fit(as_bags(bags).X)
        return self

    def transform(self, bags: Any) -> Bags:
        """The same bags with transformed rows."""
        check_is_fitted(self, "transformer_")
        given = as_bags(bags)
        names = given.feature_names
        if hasattr(self.transformer_, "get_feature_names_out"):
            names = tuple(self.transformer_.get_feature_names_out(names))
        return given.with_features(self.transformer_.transform(given.X), names)
