"""Whether a column log n is worth having, judged by the evidence of one site per bag."""

import numpy as np
import pytest
from tests.problems import features_of

from bagwise import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.inference.engines import Limits, by_bag_sites
from bagwise.inference.kernel_learning import size_effect
from bagwise.inference.kernel_learning.size_effect import (
    LEAST_GAIN,
    gain_of_sizes,
    may_have_sizes,
)
from bagwise.inference.loop import SILENT


def noise_bags(sizes, seed=0):
    sizes = np.asarray(sizes)
    rng = np.random.default_rng(seed)
    return Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(len(sizes)), sizes))


def labels_of(y, bags):
    return CountEvidence(np.asarray(y, dtype=float).reshape(len(bags), -1), bags.sizes)


def spread_sizes(n=40, seed=0):
    return np.random.default_rng(seed).integers(1, 25, n)


@pytest.mark.parametrize("larger_is", [0.0, 1.0])
def test_labels_that_follow_size_alone_gain_by_a_column_of_sizes(larger_is):
    bags = noise_bags(spread_sizes())
    y = np.where(bags.sizes > 9, larger_is, 1.0 - larger_is)
    assert gain_of_sizes(features_of(bags, bias=3.0), bags, labels_of(y, bags), 0) > LEAST_GAIN


def test_labels_that_follow_the_rule_of_at_least_one_gain_nothing_by_it():
    gains = []
    for seed in range(6):
        bags = noise_bags(spread_sizes(seed=seed), seed)
        positive = 2.0 * bags.X[:, 0] - 4.0 + np.random.default_rng(100 + seed).normal(size=bags.n_instances) > 0
        y = np.maximum.reduceat(positive, bags.offsets[:-1])
        gains.append(gain_of_sizes(features_of(bags, bias=3.0), bags, labels_of(y, bags), 0))
    assert np.mean(np.array(gains) > LEAST_GAIN) <= 1 / 3
    assert np.median(gains) < LEAST_GAIN


def test_gain_is_the_difference_of_two_evidences_and_leaves_the_features_alone():
    bags = noise_bags(spread_sizes())
    evidence = labels_of(np.arange(len(bags)) % 2, bags)
    features = features_of(bags, bias=3.0)
    plain, sized = (
        by_bag_sites(some, bags, evidence, Limits(60, 2e-3, SILENT), 7).log_evidence.item()
        for some in (features, features.with_sizes(bags.sizes))
    )
    assert gain_of_sizes(features, bags, evidence, 7) == pytest.approx(sized - plain)
    assert features.size_range is None


def test_gain_that_cannot_be_told_is_no_number_and_so_never_enough(monkeypatch):
    monkeypatch.setattr(size_effect, "_ROUNDS", 1)
    bags = noise_bags(spread_sizes())
    gain = gain_of_sizes(features_of(bags), bags, labels_of(np.arange(len(bags)) % 2, bags), 0)
    assert np.isnan(gain)
    assert not gain > LEAST_GAIN


def test_sizes_are_needed_where_sites_settle_with_them_alone(monkeypatch):
    ask = size_effect.by_bag_sites

    def settles(features, *rest):
        if (features.size_range is None) == (unsettled == "plain"):
            raise NumericalError("its sites still moved")
        return ask(features, *rest)

    monkeypatch.setattr(size_effect, "by_bag_sites", settles)
    bags = noise_bags(spread_sizes())
    evidence = labels_of(np.arange(len(bags)) % 2, bags)
    unsettled = "plain"
    assert gain_of_sizes(features_of(bags), bags, evidence, 0) > LEAST_GAIN
    unsettled = "sized"
    assert not gain_of_sizes(features_of(bags), bags, evidence, 0) > LEAST_GAIN


def test_of_very_many_rows_some_whole_bags_are_asked(monkeypatch):
    bags = noise_bags(np.tile(spread_sizes(), 5))
    evidence = labels_of(np.where(bags.sizes > 9, 1.0, 0.0), bags)
    features, asked, ask = features_of(bags, bias=3.0), [], size_effect.by_bag_sites
    monkeypatch.setattr(size_effect, "by_bag_sites", lambda f, some, *rest: asked.append(some) or ask(f, some, *rest))
    monkeypatch.setattr(size_effect, "MOST_ROWS", 1000)
    assert gain_of_sizes(features, bags, evidence, 0) > LEAST_GAIN
    assert {some.n_instances <= 1000 < bags.n_instances for some in asked} == {True}
    assert set(asked[0].ids) <= set(bags.ids)
    assert all(bags.sizes[int(name)] == size for name, size in zip(asked[0].ids, asked[0].sizes, strict=True))
    assert np.array_equal(asked[0].ids, asked[1].ids)


def test_only_labels_of_bags_that_differ_in_size_are_asked_about():
    bags, same = noise_bags([1, 2, 3]), noise_bags([2, 2, 2])
    assert may_have_sizes(bags, labels_of([0, 1, 0], bags))
    assert not may_have_sizes(same, labels_of([0, 1, 0], same))
    assert not may_have_sizes(noise_bags([2, 2, 5]), labels_of([0, 1, np.nan], noise_bags([2, 2, 5])))
    assert not may_have_sizes(bags, labels_of([np.nan] * 3, bags))


def test_tables_are_not_judged_by_bags():
    sizes = np.array([1, 2, 3])
    by_table = np.array([False, True, False])
    evidence = CountEvidence(np.array([[0.0], [np.nan], [1.0]]), sizes, (np.zeros(9),), (by_table,))
    assert not evidence.only_labels()
    silent = CountEvidence(np.array([[0.0], [1.0], [1.0]]), sizes, (np.zeros(9),), (np.zeros(3, dtype=bool),))
    assert silent.only_labels()
