"""What every estimator shares: checked input, features, answers that follow from its rule, files."""

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bagwise import _validation as check
from bagwise._matrices import check_finite
from bagwise.bag_models.rules import Rule
from bagwise.bags import Bags, as_bags
from bagwise.evidence.declared import refuse_undeclared
from bagwise.evidence.known import has_known
from bagwise.evidence.labels import Labels, label_array, read_labels
from bagwise.evidence.statements import Evidence, label_statements
from bagwise.evidence.weights import read_weights, with_class_weight
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user
from bagwise.gp import kernels
from bagwise.gp.features import Features, make_features
from bagwise.inference.chains.diagnostics import Chains
from bagwise.inference.loop import Trace
from bagwise.inference.places import threads_of_steps
from bagwise.models._base.card import Abilities
from bagwise.models._base.card import ModelCard as ModelCard
from bagwise.models._base.fit_record import FitRecord
from bagwise.models._base.label_answers import LabelAnswers
from bagwise.models._base.label_answers import bag_weights as bag_weights
from bagwise.models._base.learned_nothing import warn_if_alike, warn_if_worse_than_constant
from bagwise.models._base.saved import SavedEstimator
from bagwise.models._base.saved import check_device as check_device
from bagwise.models._base.state import pack, unpack
from bagwise.predict import bags as predict
from bagwise.predict.given import bags_given_labels, instances_given_labels, parts_given_labels
from bagwise.predict.points import Fitted

SIZE_REACH = 4  # how many times larger than any training bag a bag may be before its probability is doubtful
SIZED_REACH = 2  # the same, and how many times smaller, where size itself has an effect (``size_effect_``)
DTYPES = {"float64": torch.float64, "float32": torch.float32}


class BagEstimator(SavedEstimator, ClassifierMixin, BaseEstimator):
    """Bags in, features, files: what every estimator shares, whatever its answers are."""

    abilities: ClassVar[Abilities] = Abilities(latent=True)
    sign_of_fit: ClassVar[str] = "posterior_"
    own_attributes: ClassVar[tuple[str, ...]] = ()  # further fitted attributes (plain JSON values) to save
    traces: ClassVar[tuple[str, ...]] = ("trace_",)  # fitted attributes that are a Trace, or None
    takes_weights: ClassVar[bool] = False  # whether a row may stand for many individuals

    features_: Features
    posterior_: Any  # of the weights v: a Gaussian, or draws where chains were run
    rule_: Any  # what a bag is, see ``bagwise.bag_models.rules``
    trace_: Trace
    log_evidence_: Any
    seed_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]  # absent where the columns had no names
    sizes_seen_: tuple[int, int]  # number of instances of the smallest and of the largest training bag
    learned_from_known_: bool  # whether instances known one by one took part in the fit
    threads_: int | None  # of every step of the fit; None in files that do not tell

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def of_classes(self) -> bool:
        """Whether the fitted estimator chooses one class out of many; it then has ``instance_classes_``."""
        check_is_fitted(self, "rule_")
        return bool(self.rule_.of_classes)

    def fit_record(self) -> FitRecord:
        """How the fit went and what it found, as far as this estimator keeps it."""
        return FitRecord(
            self.trace_,
            chains=self._found_chains(),
            kernel=self.kernel_,
            learned_from_known=self.learned_from_known_,
        )

    @property
    def decides_by_mode(self) -> bool:
        """Whether decisions about bags follow from the mode of the latent function, not from probabilities."""
        return bool(self.rule_.decides_by_mode)

    @property
    def n_iter_(self) -> int:
        """Number of iterations made."""
        return len(self.trace_)

    @property
    def converged_(self) -> bool:
        """Whether the iteration met its tolerance."""
        return self.trace_.converged

    @property
    def kernel_(self) -> Any:
        """The gpytorch kernel, in units of standardised features."""
        return self.features_.kernel

    @property
    def relevance_(self) -> NDArray[np.float64] | None:
        """Share of every feature in the squared inverse lengthscales; None for kernels without."""
        return kernels.relevance(self.features_.kernel, self.n_features_in_)

    # ------------------------------------------------------------ files

    @classmethod
    def restore(cls, description: dict[str, Any], tensors: dict[str, torch.Tensor], device: torch.device) -> Self:
        """The estimator that ``save`` described."""
        model: Self = unpack(cls, description, tensors, device)
        return model

    def _packed(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        return pack(self)

    # ------------------------------------------------------------ fitting

    def _check_settings(self) -> None:
        """Refuse settings that this model cannot have; called by ``fit`` and for a model from a file."""
        raise NotImplementedError

    def _training_bags(self, bags: Any, y: Any) -> Bags:
        """The bags of a fit, checked; evidence that the model's card does not list is refused here, for every model."""
        checked = self._check_bags(bags, reset=True)
        refuse_undeclared(type(self).__name__, self.card.evidence, checked, y)
        self.sizes_seen_ = int(checked.totals.min()), int(checked.totals.max())
        self.learned_from_known_ = has_known(checked)
        return checked

    def _make_features(
        self,
        bags: Bags,
        kernel: Any = None,
        *,
        inducing: Any = None,
        n_inducing: int | None = None,
        project: int | None = None,
    ) -> Features:
        random = check.random_stream(self.random_state)
        features = make_features(
            bags,
            kernel=self.kernel if kernel is None else kernel,
            lengthscale=self.lengthscale
            if kernel is None or kernel is self.kernel or isinstance(kernel, str)
            else None,
            bias=self.bias,
            n_inducing=self.n_inducing if n_inducing is None else n_inducing,
            inducing=self.inducing if inducing is None else inducing,
            standardize=self.standardize,
            jitter=self.jitter,
            device=check_device(self.device),
            dtype=check_dtype(self.dtype),
            random=random,
            project=project,
        )
        self.seed_ = int(random.randint(2**31 - 1))
        return features

    def _finish(
        self, features: Features, posterior: Any, rule: Rule, trace: Trace, log_evidence: torch.Tensor | None
    ) -> None:
        self.features_, self.posterior_, self.rule_, self.trace_ = features, posterior, rule, trace
        self.threads_ = threads_of_steps()
        sound = log_evidence is not None and bool(torch.isfinite(log_evidence).all())
        values = log_evidence.cpu().numpy() if log_evidence is not None and sound else None
        self.log_evidence_ = float(values[0]) if values is not None and len(values) == 1 else values
        if trace.interrupted:
            raise KeyboardInterrupt(f"fit was interrupted after {len(trace)} iterations; the model keeps what it had.")

    # ------------------------------------------------------------ helpers

    def _found_chains(self) -> Chains | None:
        """What was watched in every sweep, where the model was fitted by chains."""
        return None

    def _n_functions(self) -> int:
        """How many latent functions the posterior is about: one for every label column."""
        return len(self.label_names_ or ("",))

    def _column_names(self) -> tuple[str, ...] | None:
        """Names of the latent functions, None where there is one."""
        return self.label_names_

    def _has_sound_classes(self) -> bool:
        """Whether ``classes_`` can be what this model was fitted with; asked of a model file."""
        return bool(np.shape(np.atleast_2d(self.classes_))[1] == 2)

    def _check_bags(self, X: Any, *, reset: bool = False) -> Bags:
        if reset:
            check.check_verbose(self.verbose)
            check.check_jitter(self.jitter)
        else:
            check_is_fitted(self, "posterior_")
        bags = as_bags(X)
        if bags.weight is not None and not self.takes_weights:
            raise BagDataError(
                f"{type(self).__name__} takes no weights: it needs a row for every individual. bags.repeated() has "
                "one; for large totals use BagGP."
            )
        check.check_feature_names(self, bags.n_features, bags.feature_names, reset=reset)
        if not bags.stays_in_file:  # those are checked whenever they are read
            check_finite(bags.X, bags.ids, bags.index, bags.rows, bags.feature_names)
        return bags

    def _bags_to_judge(self, X: Any) -> Bags:
        """Bags to be answered for as bags; warns where their sizes are far from any that was learned from."""
        bags, (smallest, largest) = self._check_bags(X), self.sizes_seen_
        sized = self.features_.size_range is not None
        sizes = bags.totals
        beyond = sizes > (SIZED_REACH if sized else SIZE_REACH) * largest
        if sized:
            beyond |= SIZED_REACH * sizes < smallest
        if beyond.any() and (sized or self.rule_.grows_with_size):
            bag = int(np.argmax(np.where(beyond, sizes, 0)))
            warn_user(
                f"{int(beyond.sum())} of {len(bags)} bags have sizes far from those of the fit ({smallest} to "
                f"{largest} instances); bag {bags.ids[bag]!r} has {sizes[bag]}. {_FAR_SIZES[sized]} "
                "Do not trust these probabilities: fit on bags of such sizes, or cut the bags up.",
                BagDataWarning,
            )
        return bags


_FAR_SIZES = {
    False: "The more instances a bag has, the more probable it is that one of them is positive, and how fast was not "
    "learned at such sizes.",
    True: "What the size of a bag does by itself (size_effect_) was not learned at such sizes; the nearest size of the "
    "fit is used for it.",
}


class BagClassifier(LabelAnswers, BagEstimator):
    """A binary classifier of bags and of their instances with a Gaussian posterior over whitened features."""

    abilities: ClassVar[Abilities] = Abilities(latent=True, parts=True, given=True, together=True)

    def fit_record(self) -> FitRecord:
        """How the fit went and what it found, as far as this estimator keeps it."""
        return super().fit_record()._replace(mean=self.mean_)

    # ------------------------------------------------------------ answers

    def predict_proba(self, bags: Any, *, given: Any = None) -> NDArray[np.float64]:
        """P(the bag is positive) by ``rule_``: (B, 2) in the order of ``classes_``, or (B, K) for K labels.

        ``given`` are the labels of these bags, as ``fit`` takes them (NaN where unknown). They are taken as true, so
        a bag with a label gets probability 0 or 1.
        """
        checked = self._bags_to_judge(bags)
        if given is None:
            return self._columns(predict.bag_probability(self._fitted(), checked))
        stated = self._given_labels(bags, checked, given)
        return self._columns(bags_given_labels(self._fitted(), checked, stated))

    def predict_instance_proba(self, bags: Any, *, given: Any = None) -> NDArray[np.float64]:
        """P(the instance is positive), in the order of ``bags.X``: (N, 2), or (N, K) for K labels.

        ``given`` are the labels of these bags, as ``fit`` takes them (NaN where unknown): the answer is then the
        probability given the label of the instance's own bag, taken as true. No instance of a negative bag is
        positive, and in a positive bag every probability is divided by that of the bag. What is known of single
        instances (``bags.known``) is not looked at.
        """
        checked = self._check_bags(bags)
        if given is None:
            return self._columns(predict.instance_probability(self.features_, self.posterior_, checked))
        stated = self._given_labels(bags, checked, given)
        return self._columns(instances_given_labels(self._fitted(), checked, stated))

    def predict_both_proba(self, bags: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``predict_proba`` and ``predict_instance_proba`` at once: rows are read, and features computed, once."""
        found = predict.both_probabilities(self._fitted(), self._bags_to_judge(bags))
        return self._columns(found[0]), self._columns(found[1])

    def predict_part_proba(self, bags: Any, *, given: Any = None) -> NDArray[np.float64]:
        """P(the part is positive) for the parts of bags (the slides of a patient): (P, 2), or (P, K) for K labels.

        Parts are in the order of ``bags.by_part().ids``. All levels come from the same draws: no part is more
        probable than its bag, no instance more probable than its part. ``given`` are labels of the bags, as in
        ``predict_instance_proba``.
        """
        checked = self._bags_to_judge(bags)
        whole = predict.bag_probability(self._fitted(), checked)
        found = predict.part_probability(self._fitted(), checked, whole)
        if given is None:
            return self._columns(found)
        owner = checked.index[checked.by_part().offsets[:-1]]
        stated = self._given_labels(bags, checked, given)
        return self._columns(parts_given_labels(self._fitted(), found, whole[owner], stated[owner]))

    def predict_instance_spread(self, bags: Any) -> NDArray[np.float64]:
        """Standard deviation of every instance's probability under the posterior: (N,), or (N, K).

        0 where the model knows the probability, whatever it is; large where it has seen too little to say.
        """
        checked = self._check_bags(bags)
        spread = predict.instance_spread(self.features_, self.posterior_, checked)
        return spread if self._several() else spread[:, 0]

    def predict_latent(self, bags: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of the latent f of every instance: (N,) each, or (N, K)."""
        checked = self._check_bags(bags)
        mean, variance = predict.latent_moments(self.features_, self.posterior_, checked)
        return (mean, variance) if self._several() else (mean[:, 0], variance[:, 0])

    @property
    def mean_(self) -> Any:
        """Posterior mean of the constant (the bias column), 0 without one; one value per label."""
        bias = self.features_.bias
        means = bias * self.posterior_.mean[-1].cpu().numpy() if bias > 0 else np.zeros(self.posterior_.mean.shape[1])
        return means if self._several() else float(means[0])

    # ------------------------------------------------------------ fitting

    def _read(self, bags: Any, y: Any) -> tuple[Bags, Labels]:
        """Check and remember the shape of the training input."""
        checked = self._training_bags(bags, y)
        labels = read_labels(
            y, checked, keyed=isinstance(bags, Bags), may_be_empty=isinstance(bags, Bags | list | tuple)
        )
        self._remember(labels.classes, labels.names)
        return checked, labels

    def _weights(
        self, bags: Any, sample_weight: Any, labels: NDArray[np.float64], classes: NDArray[Any]
    ) -> NDArray[np.float64] | None:
        """How much every bag counts, by its own weight and by that of its class; None where all count once."""
        own = read_weights(sample_weight, as_bags(bags), keyed=isinstance(bags, Bags))
        return with_class_weight(own, self.class_weight, labels, classes)

    def _warn_if_nothing_learned(
        self, bags: Bags, labels: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Warn where answers for the training bags are all alike, or worse than a constant for labels (B, K)."""
        if not np.isnan(labels).all():
            warn_if_alike(self, bags)
            warn_if_worse_than_constant(self, bags, labels, weight)

    # ------------------------------------------------------------ helpers

    def _fitted(self) -> Fitted:
        """What answers are made of: no constructor argument is."""
        return Fitted(self.features_, self.posterior_, self.rule_, self.seed_)

    def _given_labels(self, bags: Any, checked: Bags, given: Any) -> NDArray[np.float64]:
        """Labels of the bags that are asked about, (B, K) of 0, 1 and NaN."""
        if isinstance(given, Evidence):
            return label_statements(given, checked)[:, None]
        array = label_array(given, checked, keyed=isinstance(bags, Bags))
        truth = self._known_truth(array, (len(checked), self._n_functions()))
        values = np.full(truth.shape, np.nan)
        values[~pd.isna(truth)] = truth[~pd.isna(truth)] == np.ravel(self.classes_)[1]
        return values


def check_iterations(max_iter: Any, tol: Any) -> None:
    """max_iter is None (until converged) or a whole number; tol is a non-negative number."""
    if max_iter is not None:
        check.check_count("max_iter", max_iter)
    check.check_positive("tol", tol, zero=True)


def check_dtype(name: Any) -> torch.dtype:
    """A floating point type by its name."""
    return DTYPES[check.check_option("dtype", name, tuple(DTYPES))]
