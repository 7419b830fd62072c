"""Classes against label columns; bags that state nothing."""

import numpy as np
import pytest
import torch
from tests.inference.class_problems import EXACT, labelled_problem

from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.class_engines import by_class_mean_field, by_class_sites
from bagwise.inference.engines import by_bag_sites, by_mean_field


def test_classes_that_are_known_give_the_answer_of_label_columns():
    """With S = {y} for every bag the columns are independent label problems, in both inferences."""
    bags, features, y, table = labelled_problem()
    counts = CountEvidence(np.eye(2)[y], bags.sizes)
    classes = ClassEvidence(table, bags.offsets)
    one, other = by_bag_sites(features, bags, counts, EXACT, 0), by_class_sites(features, bags, classes, EXACT, 0)
    torch.testing.assert_close(other.posterior.mean, one.posterior.mean, atol=1e-6, rtol=0)
    assert other.log_evidence.sum().item() == pytest.approx(one.log_evidence.sum().item(), abs=1e-6)
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
