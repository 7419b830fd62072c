"""Which features matter to a fitted model: for every model, and measured by its answers about bags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise._matrices import axis_name, column_number
from bagwise._validation import check_count, check_option, random_stream
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import MEAN_ROW, bag_report, positive_proba, truth_of

Floats = NDArray[np.float64]
Score = Callable[[Any, Bags, Any], float]

SCORES = ("log_likelihood", "auc", "average_precision", "accuracy")


@dataclass(frozen=True)
class FeatureImportance:
    """What ``importance`` found: by how much the score falls when a feature is shuffled."""

    names: tuple[str, ...]
    falls: Floats  # (features, repeats)
    baseline: float  # the score with nothing shuffled

    @property
    def mean(self) -> Floats:
        """Mean fall of the score, one value per feature; near 0 or below where the model does not need the feature."""
        means: Floats = self.falls.mean(axis=1)
        return means

    @property
    def standard_error(self) -> Floats:
        """Standard error of the mean over the repeated shuffles; other bags would add to it."""
        errors: Floats = self.falls.std(axis=1, ddof=1) / np.sqrt(self.falls.shape[1])
        return errors

    def to_frame(self) -> pd.DataFrame:
        """A table, the most important feature first."""
        columns = {"feature": list(self.names), "importance": self.mean, "standard_error": self.standard_error}
        return pd.DataFrame(columns).sort_values("importance", ascending=False, ignore_index=True)


def importance(
    model: Any,
    bags: Any,
    y: Any,
    *,
    score: str | Score | None = None,
    features: Sequence[Any] | None = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> FeatureImportance:
    """How much worse the answers about bags become when a feature is shuffled between all instances.

    Parameters
    ----------
    model : fitted model or ``BagPipeline``
    bags : Bags, best ones that the model has not seen
    y : labels of the bags as for ``model.score``
    score : {"log_likelihood", "auc", "average_precision", "accuracy"}, callable or None, default=None
        What is to fall. "accuracy" is ``model.score``. A callable gets the model, the bags and y, and returns a number;
        more is better. None takes the log-likelihood, for a model of one class out of many the accuracy.
    features : list or None, default=None
        What to shuffle: numbers or names of columns. A list of columns inside the list is shuffled as one: use it for
        columns that say nearly the same, for a model can replace one of them by the others and each alone then looks
        unimportant. None takes every column by itself.
    n_repeats : int, default=5
        Number of shuffles of each feature, at least 2. The time grows in proportion.
    random_state : int, RandomState or None, default=None
        Makes the shuffles repeatable.

    Examples
    --------
    >>> from bagwise import VGPMIL
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import importance
    >>> bags, y, _ = make_bags(40, 5, 3, random_state=0)
    >>> model = VGPMIL(random_state=0).fit(bags, y)
    >>> importance(model, bags, y, random_state=0).to_frame().columns.tolist()
    ['feature', 'importance', 'standard_error']
    """
    given, rate = as_bags(bags).in_memory(), _score(model, score)
    chosen = [_columns(entry, given) for entry in (range(given.n_features) if features is None else features)]
    random, repeats = random_stream(random_state), check_count("n_repeats", n_repeats, least=2)
    baseline = rate(model, given, y)
    falls = [[baseline - rate(model, _shuffled(given, some, random), y) for _ in range(repeats)] for some in chosen]
    return FeatureImportance(tuple(_name(some, given) for some in chosen), np.array(falls), baseline)


def _score(model: Any, score: str | Score | None) -> Score:
    if callable(score):
        return score
    of_classes = model.of_classes
    name = ("accuracy" if of_classes else "log_likelihood") if score is None else check_option("score", score, SCORES)
    if name == "accuracy":
        return lambda model, bags, y: float(model.score(bags, y))
    if of_classes:
        raise BagDataError(f"score={score!r}: a model of one class out of many can be scored by its accuracy only.")
    return lambda model, bags, y: _measured(model, bags, y, name)


def _measured(model: Any, bags: Bags, y: Any, name: str) -> float:
    labels = bags.align(y) if isinstance(y, dict | pd.Series | pd.DataFrame) else y
    probability = positive_proba(model.predict_proba(bags), model.classes_)
    found = bag_report(truth_of(labels, model.classes_), probability)
    return float(found.get(MEAN_ROW, found)[name])


def _shuffled(bags: Bags, columns: list[int], random: np.random.RandomState) -> Bags:
    """The same bags with the values of some columns dealt out anew; rows of these columns stay together."""
    order = random.permutation(bags.n_instances)
    if scipy.sparse.issparse(bags.X):
        chosen = scipy.sparse.diags_array(np.isin(np.arange(bags.n_features), columns).astype(float))
        return bags.with_features(bags.X - bags.X @ chosen + bags.X[order] @ chosen, bags.feature_names)
    X = bags.X.copy()
    X[:, columns] = bags.X[order][:, columns]
    return bags.with_features(X, bags.feature_names)


def _columns(entry: Any, bags: Bags) -> list[int]:
    several = isinstance(entry, list | tuple | np.ndarray)
    return [column_number(name, bags.n_features, bags.feature_names) for name in (entry if several else [entry])]


def _name(columns: list[int], bags: Bags) -> str:
    return " + ".join(axis_name(column, bags.feature_names) for column in columns)
