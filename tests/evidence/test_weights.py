"""Weights of bags: whole numbers are the same as repeated bags, in every model and inference."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.class_weight import compute_sample_weight
from tests.problems import random_bags

from bagwise import (
    GPMIL,
    LMVGPMIL,
    MIPLGP,
    VGPMIL,
    BagDataError,
    BagGP,
    GroupKernelMachine,
    MILGPProbit,
    fraction,
    load,
)
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.weights import read_weights, with_class_weight

WEIGHTS = np.array([2, 1, 3, 0, 1, 2, 1, 1, 0, 2, 3, 1, 1, 2, 1, 1.0])
TWICE = np.repeat(np.arange(16), WEIGHTS.astype(int))
CENTRES = np.random.default_rng(5).normal(size=(8, 2))  # the same features, whatever the bags are


@pytest.fixture(scope="module")
def bags():
    return random_bags(np.random.default_rng(3), n_bags=16, sizes=(1, 4), n_features=2)


@pytest.fixture(scope="module")
def y(bags):
    found = np.array([int((X[:, 0] > 0.6).any()) for _, X in bags])
    assert 4 < found.sum() < 12
    return found


def fixed(kind, **settings):
    return kind(inducing=CENTRES, n_inducing=8, standardize=False, random_state=0, **settings)


MODELS = {
    "vi": fixed(MILGPProbit),
    "published vi": fixed(MILGPProbit, max_iter=5),
    "sequential": fixed(VGPMIL, max_iter=8),
    "structured": fixed(VGPMIL, updates="structured", max_iter=8),
    "margin": fixed(LMVGPMIL, start="published", max_iter=8),
    "witness": fixed(GPMIL, learn=False, lengthscale=3.0, n_stages=1),
    "softmax": fixed(GPMIL, approximation="softmax", learn=False, lengthscale=3.0, n_starts=1),
    "messages": fixed(BagGP, inference="ep", learn=False, tol=1e-7),
    "sites": fixed(BagGP, inference="bag-ep", learn=False, tol=1e-6),
    "mean field": fixed(BagGP, inference="vi", learn=False),
    "laplace": fixed(BagGP, inference="laplace", learn=False),
    "noisy": fixed(BagGP, inference="ep", learn=False, label_noise=0.1, tol=1e-7),
    "group effect": fixed(BagGP, learn=False, group_effect=0.5),
}


def same_answers(model, weighted, repeated, tolerance=1e-6):
    new = random_bags(np.random.default_rng(9), n_bags=12, sizes=(1, 4), n_features=2)
    answers = model.fit(*weighted[:2], sample_weight=weighted[2]).predict_proba(new)
    found, said = model.predict_instance_proba(new), model.log_evidence_
    model.fit(*repeated)
    np.testing.assert_allclose(answers, model.predict_proba(new), atol=tolerance)
    np.testing.assert_allclose(found, model.predict_instance_proba(new), atol=tolerance)
    np.testing.assert_allclose(said, model.log_evidence_, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_whole_weights_are_repeated_bags(name, bags, y):
    same_answers(MODELS[name], (bags, y, WEIGHTS), (bags[TWICE], y[TWICE]))


@pytest.mark.parametrize("name", ["structured", "messages", "mean field", "laplace"])
def test_whole_weights_are_repeated_bags_with_counts_and_known_instances(name, bags):
    model = clone(MODELS[name]).set_params(evidence="count")
    some = bags.with_known(np.where(np.arange(bags.n_instances) % 6 == 0, 0.0, np.nan))
    negative = np.add.reduceat(some.known == 0, bags.offsets[:-1])
    ranges = np.stack([np.zeros(16), np.maximum(0, bags.sizes - negative - 1)], axis=1)
    same_answers(model, (some, ranges, WEIGHTS), (some[TWICE], ranges[TWICE]))


@pytest.mark.parametrize("name", ["witness", "sequential", "mean field"])
def test_whole_weights_are_repeated_bags_with_known_instances(name, bags, y):
    known = np.full(bags.n_instances, np.nan)
    known[bags.offsets[:-1][(y == 0) & (bags.sizes > 1)]] = 0.0
    some = bags.with_known(known)
    same_answers(clone(MODELS[name]), (some, y, WEIGHTS), (some[TWICE], y[TWICE]))


def test_whole_weights_are_repeated_bags_with_several_label_columns(bags, y):
    both = np.stack([y, np.roll(y, 1)], axis=1)
    for name in ("vi", "messages", "sequential"):
        same_answers(clone(MODELS[name]), (bags, both, WEIGHTS), (bags[TWICE], both[TWICE]))


@pytest.mark.statistical
def test_the_kernel_learned_with_whole_weights_is_that_of_repeated_bags(bags, y):
    model = fixed(BagGP, inference="laplace", lengthscale=1.0, size_effect=False)
    same_answers(model, (bags, y, WEIGHTS), (bags[TWICE], y[TWICE]), 2e-3)


def test_a_bag_that_is_there_four_times_with_weight_a_quarter_counts_once(bags, y):
    numbers, quarter = np.repeat(np.arange(16), 4), np.full(64, 0.25)
    model = fixed(BagGP, lengthscale=1.0, size_effect=False)
    new = bags[::2]
    found = model.fit(bags[numbers], y[numbers], sample_weight=quarter).predict_proba(new)
    assert model.inference_ == "vi"  # no message can be of less than half a bag
    kernel = model.kernel_
    alone = fixed(BagGP, kernel=kernel, learn=False, inference="vi").fit(bags, y)
    np.testing.assert_allclose(found, alone.predict_proba(new), atol=1e-6)


# ---------------------------------------------------------------- models that repeat bags


@pytest.mark.parametrize(
    "model",
    [
        fixed(MILGPProbit, inference="gibbs", n_samples=4, n_burn_in=2, n_chains=2),
        fixed(BagGP, inference="gibbs", learn=False, n_samples=4, n_burn_in=2, n_chains=2),
        GroupKernelMachine(evidence="label", n_samples=4, n_burn_in=2, n_chains=2, random_state=0),
        fixed(BagGP, evidence="class", learn=False),
        fixed(MIPLGP, learn=False, n_rounds=3),
    ],
    ids=["gibbs", "flagship", "groups", "classes", "candidates"],
)
@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_models_without_powers_repeat_bags_and_refuse_parts_of_them(model, bags, y):
    told = [{value} for value in np.array(["no", "yes"])[y]] if isinstance(model, MIPLGP) else y
    again = [told[number] for number in TWICE] if isinstance(model, MIPLGP) else y[TWICE]
    found = model.fit(bags, told, sample_weight=WEIGHTS).predict_proba(bags)
    np.testing.assert_array_equal(found, model.fit(bags[TWICE], again).predict_proba(bags))
    with pytest.raises(BagDataError, match=r"bag '1' is 0.5, but \w+ takes whole numbers only .*: .*whole"):
        model.fit(bags, told, sample_weight=np.where(np.arange(16) == 1, 0.5, 1.0))


# ---------------------------------------------------------------- forms, refusals, scikit-learn


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(15), r"one weight per bag \(16\), got shape \(15,\)"),
        (np.where(np.arange(16) == 4, -1.0, 1.0), "of bag '4' is -1"),
        (np.where(np.arange(16) == 4, np.nan, 1.0), "of bag '4' is nan"),
        (np.zeros(16), "every weight is zero"),
        (["heavy"] * 16, "expected one number per bag"),
        ({"0": 1.0}, "no entry for bag"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message, bags):
    with pytest.raises(BagDataError, match=message):
        read_weights(weights, bags, keyed=True)


def test_weights_may_be_keyed_by_bag(bags, y):
    keyed = pd.Series(WEIGHTS, index=bags.ids).sample(frac=1, random_state=0)
    np.testing.assert_array_equal(read_weights(keyed, bags, keyed=True), WEIGHTS)
    np.testing.assert_array_equal(read_weights(dict(keyed), bags, keyed=True), WEIGHTS)


def test_scikit_learn_splits_weights_with_the_bags(bags, y):
    model, weights = MILGPProbit(max_iter=3, n_inducing=5, random_state=0), WEIGHTS + 0.5
    folds = [(np.arange(8), np.arange(8, 16)), (np.arange(8, 16), np.arange(8))]
    found = cross_val_score(model, bags, y, cv=folds, scoring="neg_log_loss", params={"sample_weight": weights})
    expected = []
    for train, test in folds:
        p = model.fit(bags[train], y[train], sample_weight=weights[train]).predict_proba(bags[test])
        expected.append(np.log(p[np.arange(8), y[test]]).mean())
    np.testing.assert_allclose(found, expected)
    assert GridSearchCV(model, {"bias": [1.0, 5.0]}, cv=2).fit(bags, y, sample_weight=weights).best_score_ > 0


# ---------------------------------------------------------------- weights of classes


@pytest.mark.parametrize("name", ["vi", "sequential", "softmax", "messages"])
def test_class_weights_multiply_those_of_the_bags(name, bags, y):
    for given in ("balanced", {0: 1.0, 1: 3.0}):
        model = clone(MODELS[name])
        whole = model.fit(bags, y, sample_weight=compute_sample_weight(given, y)).predict_proba(bags)
        found = model.set_params(class_weight=given).fit(bags, y).predict_proba(bags)
        np.testing.assert_allclose(found, whole, atol=1e-7)


def test_bags_keep_their_own_weights_beside_those_of_their_classes():
    own, labels = np.array([1.0, 2.0, 3.0, 4.0]), np.array([[0.0], [1.0], [1.0], [np.nan]])
    found = with_class_weight(own, {"no": 1.0, "yes": 10.0}, labels, np.array(["no", "yes"]))
    assert found.tolist() == [1.0, 20.0, 30.0, 4.0]


def test_evidence_of_some_bags_has_their_weights():
    evidence = CountEvidence(np.zeros((3, 1)), np.array([2, 1, 2]), weight=np.array([1.0, 2.0, 3.0]))
    assert evidence.of_bags(np.array([2, 1])).weight.tolist() == [3.0, 2.0]


def test_class_weights_are_saved_with_the_model(bags, y, tmp_path):
    named = np.where(y == 1, "sick", "well")
    model = fixed(MILGPProbit, class_weight={"sick": 5, "well": 1}).fit(bags, named)
    assert model.predict_proba(bags)[:, 0].mean() > fixed(MILGPProbit).fit(bags, named).predict_proba(bags)[:, 0].mean()
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").class_weight == {"sick": 5, "well": 1}


def test_class_weights_of_other_classes_or_evidence_are_refused(bags, y):
    for settings, labels, message in (
        ({"class_weight": {2: 1.0}}, y, "class_weight names '2'; the classes of y are '0', '1'"),
        ({"class_weight": "equal"}, y, "expected None, 'balanced', or a dict"),
        ({"class_weight": {0: -1}}, y, "expected None, 'balanced', or a dict"),
        ({"class_weight": "balanced"}, np.stack([y, y], axis=1), "y has 2 label columns"),
        ({"class_weight": "balanced"}, fraction(np.full(16, 0.5), 5.0), "is for labels, but no bag has a label"),
        ({"class_weight": "balanced", "inference": "gibbs"}, y, "another inference than 'gibbs'"),
    ):
        with pytest.raises(BagDataError, match=message):
            BagGP(learn=False, **settings).fit(bags, labels)
