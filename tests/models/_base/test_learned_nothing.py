"""A fit whose answers say nothing warns, and a fit that learned something does not."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bagwise import GPMIL, LMVGPMIL, MIPLGP, VGPMIL, BagGP, Bags, GroupKernelMachine, LearnedNothingWarning, MILGPProbit
from bagwise.baselines import NSK, SIL
from bagwise.gp.inducing import SAMPLE
from bagwise.models._base import learned_nothing
from bagwise.models._base.learned_nothing import warn_if_alike

LABEL_MODELS = [BagGP(learn=False), GPMIL(learn=False), MILGPProbit(), VGPMIL(), LMVGPMIL()]


def _problem(shift, n_bags=40, seed=0):
    random = np.random.RandomState(seed)
    rows = random.randn(n_bags, 4, 3)
    y = np.arange(n_bags) % 2
    rows[y == 1, 0] += shift
    return Bags.from_list(list(rows)), y


def _messages(model, bags, y):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(bags, y)
    return [str(warning.message) for warning in seen if issubclass(warning.category, LearnedNothingWarning)]


@pytest.mark.parametrize("model", LABEL_MODELS, ids=lambda model: type(model).__name__)
def test_instances_with_the_same_features_warn(model):
    bags, y = _problem(0.0)
    said = _messages(model, bags.with_features(np.ones_like(bags.X)), y)
    assert any("have the same features" in message for message in said)
    assert any("nearly the same probability" in message for message in said)


@pytest.mark.parametrize("model", LABEL_MODELS[:4], ids=lambda model: type(model).__name__)
def test_a_model_that_learned_something_does_not_warn(model):
    assert _messages(model, *_problem(4.0)) == []


class RarePositives:
    """Knows that rows far out are positive; its inducing inputs lie in the middle."""

    features_ = SimpleNamespace(inducing=torch.zeros(3, 1), scale=torch.ones(1), shift=torch.zeros(1))

    def predict_instance_proba(self, bags):
        positive = np.where(bags.X[:, 0] > 5.0, 0.9, 1e-13)
        return np.column_stack([1.0 - positive, positive])


def test_rare_positives_of_a_file_are_seen_among_the_rows_that_were_put_aside(tmp_path):
    np.save(tmp_path / "X.npy", np.where(np.arange(100) == 7, 9.0, 0.0)[:, None])
    opened = Bags.open(tmp_path / "X.npy", np.repeat(np.arange(20), 5))
    with pytest.warns(LearnedNothingWarning, match="nearly the same probability"):
        warn_if_alike(RarePositives(), opened)
    opened.X.keep(SAMPLE, np.arange(0, 100, 7))
    np.asarray(opened.X)
    warn_if_alike(RarePositives(), opened)


def test_labels_that_features_do_not_explain_warn_by_the_log_evidence():
    said = _messages(BagGP(random_state=0), *_problem(0.0))
    assert any("do not show that BagGP has learned anything" in message for message in said)


def test_few_labels_are_not_judged_by_the_log_evidence():
    assert _messages(BagGP(learn=False), *_problem(4.0, n_bags=6)) == []


def test_labels_explained_worse_than_by_a_constant_warn():
    said = _messages(LMVGPMIL(), *_problem(2.0))
    assert any("worse than one probability for all bags" in message for message in said)


def test_every_label_column_is_judged_by_itself_and_named():
    bags, y = _problem(4.0)
    both = np.column_stack([y, np.random.RandomState(1).permutation(y)])
    said = _messages(BagGP(learn=False), bags, both)
    assert len(said) == 1
    assert "log evidence of label_1" in said[0]


def test_without_evidence_there_is_nothing_to_have_learned():
    bags, y = _problem(4.0)
    assert not any("probability" in message for message in _messages(BagGP(), bags, np.full(len(y), np.nan)))


def test_classes_that_features_do_not_tell_apart_warn():
    bags, _ = _problem(0.0, n_bags=12)
    flat = bags.with_features(np.ones_like(bags.X))
    sets = [("a", "b"), ("b", "c"), ("a", "c")] * 4
    assert any("nearly the same probability" in message for message in _messages(MIPLGP(n_rounds=3), flat, sets))
    assert any(
        "nearly the same probability" in message
        for message in _messages(BagGP(evidence="class", learn=False), flat, np.array(list("abc") * 4))
    )


def test_fractions_of_instances_that_are_all_alike_warn():
    bags, _ = _problem(0.0, n_bags=12)
    flat = bags.with_features(np.ones_like(bags.X))
    share = np.linspace(0.25, 0.75, 12)
    assert any(
        "nearly the same probability" in message for message in _messages(BagGP(evidence="fraction"), flat, share)
    )
    machine = GroupKernelMachine(n_samples=20, n_burn_in=10, n_chains=2, random_state=0)
    assert any("have the same features" in message for message in _messages(machine, flat, share))


@pytest.mark.parametrize("kind", [SIL, NSK], ids=lambda kind: kind.__name__)
def test_baselines_whose_bags_are_all_alike_warn(kind):
    bags, y = _problem(4.0)
    flat = bags.with_features(np.ones_like(bags.X))
    assert any("all bags nearly the same probability" in message for message in _messages(kind(), flat, y))
    assert _messages(kind(), bags, y) == []


@pytest.mark.parametrize("model", [GPMIL(learn=False), MILGPProbit(), VGPMIL()], ids=lambda model: type(model).__name__)
def test_labels_that_all_weigh_nothing_are_no_reason_to_fail(model):
    bags, y = _problem(4.0, n_bags=12)
    some = np.where(np.arange(12) < 4, y, np.nan)
    model.fit(bags, some, sample_weight=np.where(np.arange(12) < 4, 0.0, 1.0))
    assert np.isfinite(model.predict_proba(bags)).all()


@pytest.mark.parametrize(
    ("n_bags", "size", "looked_at"),
    [(50, 10, 50), (2000, 10, 100), (6000, 10, 100), (100_000, 1, 1000), (200, 100, 50), (30, 2000, 3), (1, 9000, 1)],
)
def test_some_bags_are_looked_at_that_cost_little_and_are_enough_to_judge(n_bags, size, looked_at):
    chosen = learned_nothing._spread_over(np.full(n_bags, size))
    assert len(chosen) == looked_at
    assert np.ptp(np.diff(chosen)) == 0 if len(chosen) > 1 else chosen[0] == 0
