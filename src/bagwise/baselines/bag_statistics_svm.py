"""A support vector machine on the mean, minimum and maximum of every feature over the bag."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from bagwise._validation import check_option
from bagwise.bags import Bags, as_bags
from bagwise.evidence.weights import read_weights
from bagwise.exceptions import BagDataError
from bagwise.models._base.documented import documented

Floats = NDArray[np.float64]


def bag_statistics(bags: Bags) -> Floats:
    """Mean, minimum and maximum of every feature over each bag, side by side: (B, 3 D)."""
    starts = bags.offsets[:-1]
    rows = bags.X.toarray() if scipy.sparse.issparse(bags.X) else bags.X
    mean = np.add.reduceat(rows, starts, dtype=np.float64) / bags.sizes[:, None]
    return np.column_stack([mean, np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)])


@documented
class BagStatisticsSVM(ClassifierMixin, BaseEstimator):
    """Support vector machine on per-bag statistics; its constants are chosen by cross-validation inside ``fit``.

    It knows bags only, and gives decisions, not probabilities.

    Parameters
    ----------
    kernel : {"rbf", "linear"}
        Kernel of the machine. Use "linear" where there are more features than bags.
    C : sequence of float
        Penalties to choose from. Extend the list where the chosen one (``search_.best_params_``) is at its end.
    gamma : sequence of float
        Inverse widths of the RBF kernel to choose from, for standardised statistics. Extend the list where the chosen
        one is at its end.
    cv : int
        Number of folds of the search; fewer are made where a class has fewer bags. Increase it for small data.
    random_state : int, RandomState instance or None
        Where the random numbers of the folds come from. Give a number to get the same machine again.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two class values.
    search_ : GridSearchCV
        The fitted search for the constants.
    """

    def __init__(
        self,
        kernel: str = "rbf",
        C: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        gamma: Sequence[float] = (1e-4, 1e-3, 1e-2),
        cv: int = 5,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.cv = cv
        self.random_state = random_state

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and one label per bag, two classes; ``sample_weight`` says how much every bag counts."""
        check_option("kernel", self.kernel, ("rbf", "linear"))
        labels = np.asarray(y)
        weights = read_weights(sample_weight, as_bags(bags), keyed=isinstance(bags, Bags))
        self.classes_, counts = np.unique(labels, return_counts=True)
        if len(self.classes_) != 2 or counts.min() < 2:
            raise BagDataError(
                f"BagStatisticsSVM: expected two classes with at least two bags each, got {len(self.classes_)} classes "
                f"with {counts.tolist()} bags."
            )
        folds = StratifiedKFold(min(self.cv, int(counts.min())), shuffle=True, random_state=self.random_state)
        machine = make_pipeline(StandardScaler(), SVC(kernel=self.kernel))
        self.search_ = GridSearchCV(machine, self._grid(), cv=folds).fit(
            bag_statistics(as_bags(bags)), labels, svc__sample_weight=weights
        )
        return self

    def predict(self, bags: Any) -> NDArray[Any]:
        """Class of every bag."""
        labels: NDArray[Any] = self.classes_[(self.decision_function(bags) > 0).astype(int)]
        return labels

    def decision_function(self, bags: Any) -> Floats:
        """Signed distance of every bag: above 0 is the second class."""
        check_is_fitted(self, "search_")
        score: Floats = self.search_.decision_function(bag_statistics(as_bags(bags)))
        return score

    def _grid(self) -> dict[str, list[float]]:
        grid = {"svc__C": list(self.C)}
        return grid | {"svc__gamma": list(self.gamma)} if self.kernel == "rbf" else grid
