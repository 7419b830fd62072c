"""What baselines share: checked and scaled bags in, calibrated probabilities out, files."""

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bagwise import _validation as check
from bagwise._matrices import check_finite
from bagwise.bags import Bags, as_bags
from bagwise.baselines._base.calibration import OPTIONS, Weighted, calibrated
from bagwise.baselines._base.files import pack_baseline, unpack_baseline
from bagwise.baselines._base.machines import Floats, Machine, as_bags_of_one
from bagwise.evidence.declared import refuse_undeclared
from bagwise.evidence.labels import read_labels
from bagwise.evidence.weights import read_weights, repeated_by_weight
from bagwise.exceptions import BagDataError
from bagwise.models._base.label_answers import LabelAnswers
from bagwise.models._base.learned_nothing import warn_if_bags_alike
from bagwise.models._base.saved import SavedEstimator

ONLY_WHOLE = "the method has no weights of its own"


class SavedBaseline(SavedEstimator, BaseEstimator):
    """Bags in, scaled as in the fit; machines and scaling to a file and back."""

    sign_of_fit: ClassVar[str] = "machines_"

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    shift_: Floats
    scale_: Floats
    machines_: tuple[Machine, ...]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @classmethod
    def restore(cls, description: dict[str, Any], tensors: dict[str, torch.Tensor], device: torch.device) -> Self:
        """The estimator that ``save`` described. Baselines compute on the processor, whatever the device."""
        model: Self = unpack_baseline(cls, description, tensors)
        return model

    def _packed(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        return pack_baseline(self)

    def _n_machines(self) -> int:
        """How many machines there are: one for every label column."""
        return len(self.label_names_ or ("",))

    def _check_settings(self) -> None:
        """Refuse settings that this baseline cannot have; called by ``fit`` and for a model from a file."""
        check.check_flag("standardize", self.standardize)

    def _training_bags(self, bags: Any, y: Any) -> Bags:
        """The bags of a fit, checked and scaled; evidence that the card does not list is refused."""
        self._check_settings()
        checked = self._check_bags(bags, reset=True)
        refuse_undeclared(type(self).__name__, self.card.evidence, checked, y)
        rows = dense_rows(checked.X)
        self.shift_, self.scale_ = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        if self.standardize:
            self.shift_, spread = rows.mean(axis=0), rows.std(axis=0)
            self.scale_ = np.where(spread > 1e-12 * (1.0 + np.abs(self.shift_)), spread, 1.0)
        return self._scaled(checked)

    def _check_bags(self, X: Any, *, reset: bool = False) -> Bags:
        if not reset:
            check_is_fitted(self, self.sign_of_fit)
        bags = as_bags(X)
        if bags.weight is not None:
            raise BagDataError(
                f"{type(self).__name__} takes no weights: it needs a row for every individual, as bags.repeated() has."
            )
        check.check_feature_names(self, bags.n_features, bags.feature_names, reset=reset)
        check_finite(bags.X, bags.ids, bags.index, bags.rows, bags.feature_names)
        return bags

    def _scaled(self, bags: Bags) -> Bags:
        return bags.with_features((dense_rows(bags.X) - self.shift_) / self.scale_)


class Baseline(LabelAnswers, SavedBaseline):
    """A classifier that learns one machine per label column; its probabilities are calibrated on held-out bags.

    A class derived from it writes ``_learn``. An instance is answered for as a bag of one.
    """

    weighs_bags: ClassVar[bool] = False  # whether ``_learn`` looks at weights; others get bags as often as they count

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and one label per bag (NaN where it is missing), or several columns of 0/1.

        ``sample_weight`` says how much every bag counts (array, or dict or Series by id); some methods take whole
        numbers only, and say so.
        """
        rows = self._training_bags(bags, y)
        if sample_weight is not None and not self.weighs_bags:
            return self.fit(*repeated_by_weight(bags, y, as_bags(bags), sample_weight, type(self).__name__, ONLY_WHOLE))
        weights = read_weights(sample_weight, rows, keyed=isinstance(bags, Bags))
        listed = isinstance(bags, Bags | list | tuple)
        labels = read_labels(y, rows, keyed=isinstance(bags, Bags), may_be_empty=listed)
        self._remember(labels.classes, labels.names)
        random = check.random_stream(self.random_state)
        weights = np.ones(len(rows)) if weights is None else weights
        self.machines_ = tuple(self._calibrated(rows, column, weights, random) for column in labels.values.T)
        warn_if_bags_alike(type(self).__name__, expit(self._odds(rows)))
        return self

    def decision_function(self, bags: Any) -> Floats:
        """Log odds that the bag is positive: (B,), or (B, K) for K labels."""
        odds = self._odds(self._scaled(self._check_bags(bags)))
        return odds if self._several() else odds[:, 0]

    def predict_proba(self, bags: Any) -> Floats:
        """P(the bag is positive), calibrated: (B, 2) in the order of ``classes_``, or (B, K) for K labels."""
        return self._columns(expit(self.decision_function(bags)))

    def predict_instance_proba(self, bags: Any) -> Floats:
        """P(a bag of this instance alone is positive), in the order of ``bags.X``: (N, 2), or (N, K) for K labels."""
        odds = self._odds(as_bags_of_one(self._scaled(self._check_bags(bags))))
        return self._columns(expit(odds if self._several() else odds[:, 0]))

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> Machine:
        """The machine of scaled bags and labels of 0 and 1, both of which occur; ``weight`` (B,) is above 0.

        Where ``weighs_bags`` is false every weight is 1.
        """
        raise NotImplementedError

    def _calibrated(self, bags: Bags, y: Floats, weight: Floats, random: np.random.RandomState) -> Machine:
        seed = random.randint(2**31 - 1)

        def learn(part: Bags, labels: Floats, times: Floats) -> Machine:
            return self._learn(part, labels, np.random.RandomState(seed), times)

        return calibrated(learn, Weighted(bags, y, weight), self.calibration, self.cv, random)

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_option("calibration", self.calibration, OPTIONS)
        check.check_count("cv", self.cv, least=2)

    def _odds(self, bags: Bags) -> Floats:
        return np.stack([machine.scores(bags) for machine in self.machines_], axis=1)


def dense_rows(X: Any) -> Floats:
    """Rows as one dense array of doubles."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=np.float64)
