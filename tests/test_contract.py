"""Every discovered estimator keeps the contract of bagwise and of scikit-learn."""

import numpy as np
import pytest
from docs.skeletons.model import MeanPoolingGP
from sklearn.utils.estimator_checks import check_estimator
from tests.cheap import cheap

import bagwise
from bagwise import BagDataWarning
from bagwise.bag_models.rules import AtLeastOne, Witness
from bagwise.models import discover
from bagwise.testing import (
    CHECKS,
    check_bag_estimator,
    check_files,
    check_learns,
    check_rule,
    check_undeclared_evidence,
)

MODELS = discover()
# One process reads the files of all (tests/test_new_process.py); the check itself is run on one.
CHECKED = [
    pytest.param(name, check, id=f"{name}-{check.__name__}")
    for name in MODELS
    for check in CHECKS
    if check is not check_files or name == "mil-gp-probit"
]


@pytest.mark.parametrize(("name", "check"), CHECKED)
@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_contract(name, check):
    check(cheap(name, MODELS))


OF_ITS_OWN = (
    check_files,
    check_rule,
)  # the first starts a process: tests/models/test_bag_gp_classes.py saves and loads


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in OF_ITS_OWN], ids=lambda one: one.__name__)
def test_contract_of_the_flagship_with_candidates(check):
    check(bagwise.BagGP(evidence="candidates", learn=False))


# What scikit-learn asks is about the handling of input, not about fine structure: few inducing inputs will do.
SMALLER = {
    "bag-gp": {"n_inducing": 15, "learn": False},
    "gpmil": {"n_inducing": 15, "n_restarts": 1, "n_starts": 1},
    "group-kernel-machine": {"n_samples": 20, "n_burn_in": 10, "n_moves": 5},
    "lm-vgpmil": {"n_inducing": 10, "tol": 1e-3},
    "miplgp": {"n_inducing": 15, "n_rounds": 10},
}


# A repeated bag has as much weight as one of weight 2 in the likelihood (tests/evidence/test_weights.py), but scaling
# and inducing inputs are chosen from the bags that are there, in their order and at random.
NOT_EQUIVALENT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "features do not depend on weights"
    for kind in ("dense", "sparse")
}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, SMALLER.get(name, {})) for name in MODELS),
        *(pytest.param(name, {}, marks=pytest.mark.statistical) for name in SMALLER),
    ],
    ids=lambda part: part if isinstance(part, str) else "smaller" if part else "",
)
@pytest.mark.filterwarnings("ignore::bagwise.BagDataWarning")
@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_scikit_learn_contract(name, settings):
    results = check_estimator(
        cheap(name, MODELS).set_params(**settings), on_skip=None, expected_failed_checks=NOT_EQUIVALENT
    )
    assert len(results) > 40
    assert not [result["check_name"] for result in results if result["status"] == "failed"]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_exported(name):
    assert getattr(bagwise, MODELS[name].__name__) is MODELS[name]


class Forgetful(bagwise.MILGPProbit):
    """Breaks one promise at a time, to show that the checks can fail."""

    def predict_proba(self, bags):
        answer = super().predict_proba(bags)
        return answer if self.broken != "company" else answer * 0 + np.roll(answer, 1, axis=0)

    def fit(self, bags, y):
        if self.broken == "mutation" and hasattr(bags, "X"):
            bags.X.base[:] = 0
        if self.broken == "memory" and hasattr(self, "posterior_"):
            return self
        return super().fit(bags, y)


@pytest.mark.parametrize(
    ("broken", "message"),
    [("company", "check_answers|check_order"), ("mutation", "check_"), ("memory", "check_repeatable")],
)
def test_a_broken_promise_is_found(broken, message, monkeypatch):
    monkeypatch.setattr(Forgetful, "broken", broken, raising=False)
    with pytest.raises(AssertionError, match=message):
        check_bag_estimator(Forgetful())


class ForgetsItsRule(MeanPoolingGP):
    """Learns from means, and answers as if one positive instance were enough."""

    def _finish(self, features, posterior, rule, trace, log_evidence):
        super()._finish(features, posterior, AtLeastOne(), trace, log_evidence)


class AsksItsSettings(bagwise.GPMIL):
    """Makes its rule of the constructor's arguments, whenever it is asked."""

    @property
    def rule_(self):
        return Witness(None if float(self.sharpness) > 0 else 1.0)

    @rule_.setter
    def rule_(self, rule):
        pass


class LearnsNothing(bagwise.MILGPProbit):
    def fit(self, bags, y):
        return super().fit(bags, np.roll(y, 1))


class TakesAnything(bagwise.MILGPProbit):
    def _training_bags(self, bags, y):
        checked = self._check_bags(bags, reset=True)
        self.sizes_seen_, self.learned_from_known_ = (1, 5), False
        return checked


@pytest.mark.parametrize(
    ("model", "check", "message"),
    [
        (ForgetsItsRule(), check_rule, "the mean probability of a class is .* off its share"),
        (AsksItsSettings(learn=False), check_rule, "depends on a constructor argument after the fit"),
        (LearnsNothing(), check_learns, "of the bags of an easy problem are told apart"),
        (TakesAnything(), check_undeclared_evidence, "evidence of the kind known is taken"),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "fit") else None,
)
def test_checks_of_rule_learning_and_evidence_can_fail(model, check, message):
    with pytest.raises(AssertionError, match=message):
        check(model)


def test_warning_for_missing_labels_is_a_bag_data_warning():
    with pytest.warns(BagDataWarning, match="every bag label is missing"):
        bagwise.MILGPProbit().fit([np.zeros((2, 1)), np.ones((1, 1))], [np.nan, np.nan])
