"""Which inference suits which bags, and what happens where one of them fails."""

import numpy as np
import pytest
from tests.inference.engine_problems import new_problem
from tests.problems import features_of, random_bags, random_labels

from bagwise import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.inference import engines
from bagwise.inference.engines import Limits, by_bag_sites, engine_for, size_of_own_bag
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import SILENT, Watch


def bags_of(sizes):
    return Bags(np.zeros((sum(sizes), 1)), np.repeat(np.arange(len(sizes)), sizes))


def evidence_of(sizes, n_labels=1, missing=()):
    labels = np.zeros((len(sizes), n_labels))
    labels[list(missing)] = np.nan
    return CountEvidence(labels, np.asarray(sizes))


def chosen(sizes, tight=False, **changes):
    return engine_for(bags_of(sizes), evidence_of(sizes, **changes), tight)


@pytest.fixture(scope="module")
def problem():
    return new_problem()


# ---------------------------------------------------------------- the rule


def test_size_of_own_bag_is_a_mean_over_instances():
    assert size_of_own_bag(np.array([1, 3])) == pytest.approx((1 * 1 + 3 * 3) / 4)


@pytest.mark.parametrize(
    ("sizes", "engine"),
    [([20] * 4, "ep"), ([21] * 4, "bag-ep"), ([1] * 50 + [40], "ep"), ([1] * 20 + [200], "bag-ep"), ([1] * 9, "ep")],
)
def test_large_bags_have_one_site_each_and_small_ones_messages(sizes, engine):
    assert chosen(sizes) == engine


def test_pinned_counts_go_to_the_mean_field_whatever_the_sizes():
    assert chosen([2, 2], tight=True) == "vi"
    assert chosen([200, 200], tight=True) == "vi"


def test_bags_without_a_label_do_not_decide():
    assert chosen([5, 5, 500], missing=(2,)) == "ep"
    assert chosen([5, 5, 500], missing=(0, 1)) == "bag-ep"
    assert chosen([500, 500], missing=(0, 1)) == "ep"


def test_too_many_messages_go_to_the_mean_field(monkeypatch):
    monkeypatch.setattr(engines, "LARGEST_MESSAGES", 20)
    assert chosen([5] * 4) == "ep"
    assert chosen([5] * 4, n_labels=2) == "vi"
    assert chosen([7] * 3) == "vi"
    assert chosen([50] * 3) == "bag-ep"


# ---------------------------------------------------------------- sites per bag, as an engine


def test_sites_that_have_not_settled_are_an_error(problem):
    bags, y = problem
    evidence = CountEvidence(y[:, None].astype(float), bags.sizes)
    with pytest.raises(NumericalError, match=r"its sites still moved by .* after 1 sweeps"):
        by_bag_sites(features_of(bags), bags, evidence, Limits(1, 1e-9, SILENT), 0)


def test_interrupted_columns_keep_the_prior(problem):
    bags, y = problem
    evidence = CountEvidence(np.column_stack([y, 1 - y]).astype(float), bags.sizes)

    def stop(iteration, value):
        raise KeyboardInterrupt

    found = by_bag_sites(features_of(bags), bags, evidence, Limits(50, 1e-6, Watch(callback=stop)), 0)
    assert found.trace.interrupted
    assert found.posterior.mean.shape[1] == 2
    assert found.posterior.mean[:, 0].abs().max() > 0
    assert not found.posterior.mean[:, 1].any()


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
