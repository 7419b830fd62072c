"""Answers that were once wrong without a word: each is right now, refused, or warned about."""

import numpy as np
import pytest
from tests.problems import random_bags, random_labels

from bagwise import (
    GPMIL,
    LMVGPMIL,
    MIPLGP,
    VGPMIL,
    BagDataError,
    BagDataWarning,
    BagGP,
    Bags,
    GroupKernelMachine,
    MILGPProbit,
)
from bagwise.datasets import make_bags
from bagwise.inference.logistic_bound import LogisticBound

QUICK = {
    "BagGP": BagGP(learn=False, n_inducing=10, random_state=0),
    "BagGP, Matérn": BagGP(learn=False, n_inducing=10, kernel="matern32", random_state=0),
    "BagGP, exponential": BagGP(learn=False, n_inducing=10, kernel="exponential", random_state=0),
    "BagGP, float32": BagGP(learn=False, n_inducing=10, dtype="float32", random_state=0),
    "GPMIL, witness": GPMIL(learn=False, n_inducing=10, random_state=0),
    "GPMIL, soft maximum": GPMIL("softmax", learn=False, n_inducing=10, n_starts=1, random_state=0),
    "VGPMIL": VGPMIL(n_inducing=10, random_state=0),
    "LMVGPMIL": LMVGPMIL(n_inducing=10, random_state=0),
    "MILGPProbit": MILGPProbit(n_inducing=10, random_state=0),
}


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(30, bag_size=(3, 6), random_state=0)
    return bags, y, make_bags(12, bag_size=(3, 6), random_state=1)[0]


@pytest.fixture(scope="module")
def fitted(problem):
    return {name: model.fit(*problem[:2]) for name, model in QUICK.items()}


def with_value(bags, value):
    """The same bags, one number of one row of the first bag replaced."""
    X = np.array(bags.X)
    X[0, 0] = value
    return bags.with_features(X)


@pytest.mark.parametrize("value", [1e5, 1e6, -1e10])
@pytest.mark.parametrize("name", QUICK)
def test_outlier_row_leaves_other_bags_unchanged(fitted, problem, name, value):
    model, new = fitted[name], problem[2]
    tolerance = 1e-6 if model.dtype == "float32" else 1e-10
    with_outlier = with_value(new, value)
    np.testing.assert_allclose(model.predict_proba(with_outlier)[1:], model.predict_proba(new)[1:], atol=tolerance)
    instances = model.predict_instance_proba(with_outlier)
    np.testing.assert_allclose(instances[1:], model.predict_instance_proba(new)[1:], atol=tolerance)
    assert np.isfinite(instances[0]).all()


@pytest.mark.parametrize("name", ["BagGP", "GPMIL, witness", "VGPMIL", "LMVGPMIL", "MILGPProbit"])
def test_row_at_any_distance_leaves_other_bags_unchanged(fitted, problem, name):
    """The squared distance is no number any more; its kernel is zero all the same."""
    model, new = fitted[name], problem[2]
    np.testing.assert_allclose(
        model.predict_proba(with_value(new, 1e200))[1:], model.predict_proba(new)[1:], atol=1e-10
    )


@pytest.mark.parametrize("name", ["BagGP, Matérn", "BagGP, float32"])
def test_row_too_far_to_compute_is_named(fitted, problem, name):
    with pytest.raises(BagDataError, match=r"bag '00', row 0 of the table, column 0: 1e\+200 is too far"):
        fitted[name].predict_proba(with_value(problem[2], 1e200))


def test_settings_changed_after_the_fit_change_no_answer(problem):
    bags, y, new = problem
    model = GPMIL(learn=False, n_inducing=10, random_state=0).fit(bags, y)
    before = model.predict_proba(new)
    model.set_params(approximation="softmax", sharpness=7.0, witnesses="hard", n_stages=1)
    assert (model.predict_proba(new) == before).all()


@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        BagGP(inference="gibbs", learn=False, n_inducing=8, n_chains=3, n_samples=211, n_burn_in=20, random_state=0),
        GroupKernelMachine("label", n_centres=8, n_chains=3, n_samples=211, n_burn_in=20, random_state=0),
    ],
    ids=["BagGP", "GroupKernelMachine"],
)
def test_at_least_one_positive_is_the_bag_probability_of_chains(model, problem):
    bags, y, new = problem
    model.fit(bags, y)
    held = model.predict_proba(new)[:, 1]
    counted = model.predict_count_proba(new, 1)
    least = np.maximum.reduceat(model.predict_instance_proba(new)[:, 1], new.offsets[:-1])
    np.testing.assert_allclose(np.maximum(counted, least), held, atol=1e-12)  # a bag is held above its instances


def test_interrupting_the_first_step_of_the_margins_keeps_the_plain_model(problem, monkeypatch):
    bags, y, new = problem
    real = LogisticBound.go_on_with

    def interrupted(self, bound):
        real(self, bound)
        monkeypatch.setattr(LogisticBound, "step", press_ctrl_c)

    def press_ctrl_c(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(LogisticBound, "go_on_with", interrupted)
    model = LMVGPMIL(n_inducing=10, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="the model keeps what it had"):
        model.fit(bags, y)
    assert np.isfinite(model.predict_proba(new)).all()
    assert np.isfinite(model.log_evidence_)


def test_log_evidence_of_the_sparse_candidate_solver_has_all_its_digits():
    bags = random_bags(np.random.default_rng(0), n_bags=12)
    table = np.eye(3, dtype=int)[np.arange(12) % 3]
    model = MIPLGP(solver="sparse", n_inducing=8, n_rounds=3, learn=False, random_state=0).fit(bags, table)
    assert model.log_evidence_ != float(np.float32(model.log_evidence_))


@pytest.mark.parametrize("confidence", [1e6, 1e12, 1e18, 1e30])
def test_fraction_of_any_confidence_is_learned(confidence):
    bags, _, instance_y = make_bags(40, bag_size=5, random_state=2)
    share = np.add.reduceat(instance_y, bags.offsets[:-1]) / 5
    settings = {"evidence": "fraction", "inference": "vi", "learn": False, "n_inducing": 20, "random_state": 0}
    firm = BagGP(confidence=confidence, **settings).fit(bags, share).predict_instance_proba(bags)[:, 1]
    usual = BagGP(confidence=1e5, **settings).fit(bags, share).predict_instance_proba(bags)[:, 1]
    np.testing.assert_allclose(firm, usual, atol=1e-3)
    assert firm.std() > 0.2


@pytest.mark.parametrize("name", [name for name in QUICK if name not in ("GPMIL, witness", "BagGP, float32")])
def test_bags_far_larger_than_any_seen_are_warned_about(fitted, name):
    rng = np.random.default_rng(0)
    large = Bags(rng.normal(size=(1000, 2)), np.zeros(1000, dtype=int))
    with pytest.warns(BagDataWarning, match=r"sizes far from those of the fit .*; bag '0' has 1000\. .*Do not trust"):
        fitted[name].predict_proba(large)


def test_columns_of_tiny_scale_are_standardised_like_any_other():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=20)
    y = random_labels(rng, bags)
    tiny = bags.with_features(bags.X * 1e-300)
    model, other = (MILGPProbit(n_inducing=8, random_state=0).fit(some, y) for some in (bags, tiny))
    np.testing.assert_allclose(other.predict_proba(tiny), model.predict_proba(bags), atol=1e-8)
