"""Classes against label columns; bags that state nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.inference.class_problems import EXACT, labelled_problem
from tests.inference.test_class_start import planted
from tests.problems import features_of

from bagwise import BagGP, Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.inference import class_engines
from bagwise.inference.class_engines import by_class_mean_field, by_class_sites
from bagwise.inference.class_start import guessed_classes
from bagwise.inference.engines import by_bag_sites, by_mean_field


def cut_for(bags, y, k):
    """A bag of class k as it is; of other bags every instance as a bag of its own. And their labels."""
    whole = np.repeat(y == k, bags.sizes)
    groups = np.where(whole, bags.index, len(bags) + np.arange(bags.n_instances))
    cut = Bags(bags.X, groups)
    return cut, np.array([1.0 if int(name) < len(bags) else 0.0 for name in cut.ids])


def test_classes_that_are_known_give_the_answer_of_labels_of_bags_and_of_single_instances():
    """With S = {y} column k is told of bags that show k, and of instances that do not: label problems, one by one."""
    bags, features, y, table = labelled_problem()
    found = by_class_sites(features, bags, ClassEvidence(table, bags.offsets), EXACT, 0)
    total = 0.0
    for k in (0, 1):
        cut, labels = cut_for(bags, y, k)
        alone = by_bag_sites(features, cut, CountEvidence(labels[:, None], cut.sizes), EXACT, 0)
        torch.testing.assert_close(found.posterior.mean[:, k], alone.posterior.mean[:, 0], atol=1e-6, rtol=0)
        total += alone.log_evidence.item()
    assert found.log_evidence.item() == pytest.approx(total, abs=1e-6)


def test_mean_field_of_classes_that_are_known_is_that_of_label_columns():
    bags, features, y, table = labelled_problem()
    counts, classes = CountEvidence(np.eye(2)[y], bags.sizes), ClassEvidence(table, bags.offsets)
    one, other = by_mean_field(features, bags, counts, EXACT), by_class_mean_field(features, bags, classes, EXACT)
    torch.testing.assert_close(other.posterior.mean, one.posterior.mean, atol=1e-6, rtol=0)
    assert other.log_evidence.sum().item() == pytest.approx(one.log_evidence.sum().item(), abs=1e-8)


def test_silent_bags_change_neither_class_inference():
    bags, features, _, table = labelled_problem()
    table[3] = False
    some = np.delete(np.arange(len(bags)), 3)
    whole, part = ClassEvidence(table, bags.offsets), ClassEvidence(table[some], bags[some].offsets)
    pairs = [
        (by_class_sites(features, bags, whole, EXACT, 0), by_class_sites(features, bags[some], part, EXACT, 0)),
        (by_class_mean_field(features, bags, whole, EXACT), by_class_mean_field(features, bags[some], part, EXACT)),
    ]
    for one, other in pairs:
        torch.testing.assert_close(one.posterior.mean, other.posterior.mean, atol=1e-6, rtol=0)


@pytest.mark.statistical
@pytest.mark.parametrize("n_false", [0, 1])
def test_classes_of_bags_of_ten_thousand_rows_settle(n_false):
    random = np.random.default_rng(0)
    y = np.arange(9) % 3
    rows = random.normal(size=(9, 10_000, 5))
    for bag, k in zip(rows, y, strict=True):
        bag[:100, k] += 4.0
    sets = [{k, (k + n_false) % 3} for k in y.tolist()]
    model = BagGP("candidates", learn=False, n_inducing=30, random_state=0).fit(Bags.from_list(rows), sets)
    assert model.inference_ == "bag-ep"
    assert model.converged_


@pytest.mark.parametrize("prefers_sets", [False, True])
def test_answer_is_the_one_that_bags_left_out_prefer(prefers_sets, monkeypatch):
    """Given the guesses every bag has one class; the answer given the sets is reached from there."""
    bags, evidence, _ = planted((0.4, 0.3, 0.3), 1, 4.0, seed=0)
    features, given, settled = features_of(bags, bias=5.0, n_inducing=20, lengthscale=2.0), [], class_engines._settled
    monkeypatch.setattr(
        class_engines, "_settled", lambda engine, limits: given.append(engine.table.numpy()) or settled(engine, limits)
    )
    found = by_class_sites(features, bags, evidence, EXACT, 0, SimpleNamespace(prefers_sets=prefers_sets))
    assert np.array_equal(given[0], guessed_classes(features, bags, evidence, 0).evidence.table)
    assert len(given) == 1 + prefers_sets
    assert np.array_equal(given[-1].sum(1) > 1, np.full(len(bags), prefers_sets))
    assert found.trace.converged
