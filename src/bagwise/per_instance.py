"""A transformer of rows, used as a transformer of bags."""

from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from bagwise._frames import as_kind
from bagwise._validation import check_feature_names, check_option, feature_names
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError

OUTPUTS = ("default", "pandas", "polars")


class PerInstance(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
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

    def transform(self, bags: Any) -> Any:
        """The same bags with transformed rows; of an ordinary table a frame, where ``set_output`` asks for one."""
        check_is_fitted(self, "transformer_")
        given = as_bags(bags)
        check_feature_names(self, given.n_features, given.feature_names, reset=False)
        rows, kind = _values(self.transformer_.transform(_table(given))), self._output()
        if kind == "default" or isinstance(bags, Bags) or len(getattr(bags, "shape", ())) != 2:
            made = given.with_features(rows, None if given.feature_names is None else self._names())
            return made if kind == "default" else made.of_kind(kind)
        if scipy.sparse.issparse(rows):
            raise BagDataError(
                f"set_output(transform={kind!r}): the rows are sparse, and a frame of them would not be."
            )
        return as_kind(pd.DataFrame(rows, columns=self._names() or _numbered(rows)), kind)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns after the transformer, from those before it."""
        check_is_fitted(self, "transformer_")
        known = feature_names(self) if input_features is None else input_features
        names: NDArray[Any] = self.transformer_.get_feature_names_out(known)
        return names

    def set_output(self, *, transform: str | None = None) -> Self:
        """What ``transform`` makes of an ordinary table: "pandas", "polars" or "default" (bags of one).

        Bags stay bags, because a table of rows would no longer say which belong together; but tables of results made
        of them (``bagwise.io.bag_table``) are of this kind. None leaves the setting as it is.
        """
        if transform is not None:
            check_option("transform", transform, OUTPUTS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def _output(self) -> str:
        """Where nothing was set here, what ``sklearn.set_config(transform_output=...)`` says."""
        chosen: dict[str, str] = getattr(self, "_sklearn_output_config", {})
        return str(chosen.get("transform", get_config()["transform_output"]))

    def _names(self) -> list[str] | None:
        """Names of the new columns; None where the transformer has none."""
        return [str(name) for name in self.get_feature_names_out()] if hasattr(self.transformer_, _NAMES) else None


_NAMES = "get_feature_names_out"


def _numbered(rows: Any) -> list[str]:
    return [f"x{number}" for number in range(np.shape(rows)[1])]


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
    return rows.to_numpy() if hasattr(rows, "to_numpy") else rows
