"""Which inference suits what, and what is not believed."""

import numpy as np
import pytest
from tests.problems import features_of, random_bags, random_labels

from bagwise import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.inference import engines
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import SILENT


def bags_of(sizes):
    return Bags(np.zeros((sum(sizes), 1)), np.repeat(np.arange(len(sizes)), sizes))


def engine(sizes, y, tight=False):
    evidence = CountEvidence(np.array(y, dtype=float)[:, None], np.array(sizes))
    return engines.engine_for(bags_of(sizes), evidence, tight)


def test_the_inference_follows_the_size_of_the_bag_that_an_instance_is_in():
    assert engine([5, 5, 5], [0, 1, 0]) == "ep"
    assert engine([40, 40], [0, 1]) == "bag-ep"
    assert engine([1] * 20 + [60], [0] * 20 + [1]) == "bag-ep"  # a bag has 4 on average, an instance is among 45


def test_bags_without_a_label_do_not_decide_about_the_inference():
    assert engine([5, 5, 500], [0, 1, np.nan]) == "ep"


def test_counts_that_are_pinned_down_are_for_the_mean_field():
    assert engine([5, 5], [0, 1], tight=True) == "vi"


def test_very_many_instances_are_for_the_mean_field(monkeypatch):
    monkeypatch.setattr(engines, "LARGEST_MESSAGES", 9)
    assert engine([5, 5], [0, 1]) == "vi"


@pytest.mark.parametrize("by", [engines.by_messages, lambda *what: engines.by_bag_sites(*what, seed=0)])
def test_evidence_above_its_ceiling_is_refused(by, monkeypatch):
    monkeypatch.setattr(ExpectationPropagation, "plausible", lambda self, ceiling: False)
    rng = np.random.default_rng(0)
    bags = random_bags(rng)
    evidence = CountEvidence(random_labels(rng, bags)[:, None], bags.sizes)
    with pytest.raises(NumericalError, match="above the highest that there can be"):
        by(features_of(bags), bags, evidence, engines.Limits(None, None, SILENT))
