"""Each check of the contract is failed by a model that breaks this promise and keeps all others."""

import functools
import warnings

import numpy as np
import pytest
from docs.skeletons.model import MeanPoolingGP
from sklearn.base import BaseEstimator

import bagwise
from bagwise.bag_models.rules import AtLeastOne, Witness
from bagwise.bags import as_bags
from bagwise.baselines import SIL
from bagwise.testing import (
    CHECKS,
    check_bag_estimator,
    check_files,
    check_learns,
    check_no_mutation,
    check_rule,
    check_undeclared_evidence,
)


class SetsFittedAttribute(SIL):
    """Its constructor does more than assign."""

    @functools.wraps(SIL.__init__)
    def __init__(self, *settings, **named):
        super().__init__(*settings, **named)
        self.n_seen_ = 0


class CallsInstancesNegative(SIL):
    def predict_instances(self, bags):
        return np.full_like(super().predict_instances(bags), self.classes_[0])


class AnswersWithNumbers(SIL):
    """Predicts 0 and 1, whatever the classes are called."""

    def predict(self, bags):
        return (super().predict(bags) == np.ravel(self.classes_)[1]).astype(int)


class ComparesBags(SIL):
    """Judges bags with several instances by the company they are in."""

    def predict_proba(self, bags):
        answer, large = super().predict_proba(bags), as_bags(bags).sizes > 1
        answer[large] = 0.9 * answer[large] + 0.1 * answer[large].mean(axis=0) if large.any() else answer[large]
        return answer


class DoubtsSingleInstances(SIL):
    """Judges a bag of one otherwise than its instance."""

    def predict_proba(self, bags):
        answer, single = super().predict_proba(bags), as_bags(bags).sizes == 1
        answer[single] = 0.5 * (answer[single] + 0.5)
        return answer


class RemembersItsFirstFit(SIL):
    def fit(self, bags, y, sample_weight=None):
        return self if "machines_" in vars(self) else super().fit(bags, y, sample_weight)


class ChangesItsSettings(MeanPoolingGP):
    def fit(self, bags, y):
        super().fit(bags, y)
        self.max_iter = 2 * self.max_iter
        return self


class BreaksOnRepeatedRows(SIL):
    singular_ = False

    def fit(self, bags, y, sample_weight=None):
        rows = as_bags(bags).X if len(bags) else np.empty((0, 1))
        self.singular_ = len(np.unique(rows, axis=0)) < len(rows)
        return super().fit(bags, y, sample_weight)

    def predict_proba(self, bags):
        return super().predict_proba(bags) * (np.nan if self.singular_ else 1.0)


class KeepsQuiet(SIL):
    """Does not say that every label is missing."""

    def fit(self, bags, y, sample_weight=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return super().fit(bags, y, sample_weight)


class AnswersForOneColumn(SIL):
    def predict_proba(self, bags):
        answer = super().predict_proba(bags)
        return answer[:, :1] if self._several() else answer


class AssumesUnitVariance(MeanPoolingGP):
    """Takes for granted that k(x, x) = 1."""

    def predict_latent(self, bags):
        mean, variance = super().predict_latent(bags)
        return mean, np.minimum(variance, 1.0 + self.features_.bias**2)


class LearnsNothing(SIL):
    def predict_proba(self, bags):
        return np.full_like(super().predict_proba(bags), 0.5)

    def predict_instance_proba(self, bags):
        return np.full_like(super().predict_instance_proba(bags), 0.5)


class AsksItsSettings(SIL):
    """Answers by a constructor's argument, whatever it was in the fit."""

    def predict_proba(self, bags):
        return super().predict_proba(bags) * (self.cv == 2)


class TakesAnything(SIL):
    """Learns from the labels, and drops what is known beside them without a word."""

    def fit(self, bags, y, sample_weight=None):
        plain = bags.with_known(None) if isinstance(bags, bagwise.Bags) else bags
        return super().fit(plain, y, sample_weight)


class ForgetsInItsFile(SIL):
    """Answers by an attribute that is not saved."""

    trust_ = 1.0

    def fit(self, bags, y, sample_weight=None):
        self.trust_ = 0.9
        return super().fit(bags, y, sample_weight)

    def predict_proba(self, bags):
        return 0.5 + self.trust_ * (super().predict_proba(bags) - 0.5)

    def predict_instance_proba(self, bags):
        return 0.5 + self.trust_ * (super().predict_instance_proba(bags) - 0.5)


class LeavesBagsOut(SIL):
    """Takes fewer labels than bags, and learns from as many bags."""

    def fit(self, bags, y, sample_weight=None):
        return super().fit(bags[: len(y)], y, sample_weight)


BROKEN = {
    "check_parameters": (SetsFittedAttribute, "the constructor sets fitted attributes"),
    "check_answers": (CallsInstancesNegative, "predict_instances and predict_instance_proba disagree"),
    "check_class_values": (AnswersWithNumbers, "predict answers with other values than the classes"),
    "check_order": (ComparesBags, "the company of bags matters"),
    "check_forms": (DoubtsSingleInstances, "a bag of one differs from its instance"),
    "check_repeatable": (RemembersItsFirstFit, "a second fit remembers the first"),
    "check_no_mutation": (ChangesItsSettings, "fit changes a constructor argument"),
    "check_duplicates": (BreaksOnRepeatedRows, "duplicate rows break the fit"),
    "check_missing_labels": (KeepsQuiet, "no warning when every label is missing"),
    "check_columns": (AnswersForOneColumn, "predict_proba does not have one column per label"),
    "check_kernel_variance": (AssumesUnitVariance, "far from all data the latent variance is"),
    "check_learns": (LearnsNothing, "of the bags of an easy problem are told apart"),
    "check_rule": (AsksItsSettings, "depends on a constructor argument after the fit"),
    "check_undeclared_evidence": (TakesAnything, "evidence of the kind known is taken"),
    "check_files": (ForgetsInItsFile, "a loaded model answers otherwise for bags"),
    "check_errors": (LeavesBagsOut, "labels of the wrong length are taken"),
}


def cheap(model):
    return model(n_inducing=10) if issubclass(model, MeanPoolingGP) else model(cv=2)


def test_every_check_has_a_model_that_breaks_it():
    assert list(BROKEN) == [check.__name__ for check in CHECKS]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_broken_model_fails_this_check(check):
    model, message = BROKEN[check.__name__]
    with pytest.raises(AssertionError, match=message):
        check(cheap(model))


@pytest.mark.parametrize("broken", CHECKS, ids=lambda check: check.__name__)
def test_broken_model_passes_every_other_check(broken):
    model = cheap(BROKEN[broken.__name__][0])
    for check in CHECKS:
        if check not in (broken, check_files):  # the latter starts a process each time
            check(model)


def test_failed_check_is_named():
    with pytest.raises(AssertionError, match="check_answers: predict_instances and predict_instance_proba disagree"):
        check_bag_estimator(cheap(CallsInstancesNegative))


# ---------------------------------------------------------------- the same promises, broken inside of the models


class ForgetsItsRule(MeanPoolingGP):
    """Learns from means, and answers as if one positive instance were enough."""

    def _finish(self, features, posterior, rule, trace, log_evidence):
        super()._finish(features, posterior, AtLeastOne(), trace, log_evidence)


class MakesItsRuleOfSettings(bagwise.GPMIL):
    """Makes its rule of the constructor's arguments, whenever it is asked."""

    @property
    def rule_(self):
        return Witness(None if float(self.sharpness) > 0 else 1.0)

    @rule_.setter
    def rule_(self, rule):
        pass


class TakesUndeclaredEvidence(bagwise.MILGPProbit):
    def _training_bags(self, bags, y):
        checked = self._check_bags(bags, reset=True)
        self.sizes_seen_, self.learned_from_known_ = (1, 5), False
        return checked


class ShufflesLabels(bagwise.MILGPProbit):
    def fit(self, bags, y):
        return super().fit(bags, np.roll(y, 1))


class OverwritesFeatures(bagwise.MILGPProbit):
    def fit(self, bags, y):
        bags.X.base[:] = 0
        return super().fit(bags, y)


@pytest.mark.parametrize(
    ("model", "check", "message"),
    [
        (ForgetsItsRule(), check_rule, "the mean probability of a class is .* off its share"),
        (MakesItsRuleOfSettings(learn=False), check_rule, "depends on a constructor argument after the fit"),
        (ShufflesLabels(), check_learns, "of the bags of an easy problem are told apart"),
        (TakesUndeclaredEvidence(), check_undeclared_evidence, "evidence of the kind known is taken"),
        (OverwritesFeatures(), check_no_mutation, "fit or predict changes the features it was given"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, BaseEstimator) else None,
)
def test_promise_broken_inside_of_a_model_is_found(model, check, message):
    with pytest.raises(AssertionError, match=message):
        check(model)
