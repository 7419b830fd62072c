"""What models are compared by."""

import numpy as np

from bagwise import MIPLGP, BagGP
from bagwise.compare import compare_models
from bagwise.datasets import make_bags, make_groups


def test_instances_are_measured_where_their_labels_are_given(result):
    assert result.mean("mil-gp-probit", "instance auc").n == 3
    assert result.mean("bag-statistics-svm", "instance auc").n == 3
    frame = result.to_frame().set_index("model")
    assert np.isfinite(frame.loc["bag-statistics-svm", "instance auc"])
    assert frame["folds"].tolist() == [3, 3]


def test_fractions_are_compared_by_their_error():
    bags, fraction, truth = make_groups(random_state=0)
    models = {"few": BagGP(n_inducing=5, learn=False, inference="vi"), "more": BagGP(n_inducing=20, learn=False)}
    found = compare_models(bags, fraction, models, evidence="fraction", folds=2, instance_y=truth)
    assert found.metric == "fraction mean_absolute_error"
    means = {name: found.mean(name).mean for name in models}
    assert found.best == min(means, key=means.get)
    assert found.estimator("few").get_params()["evidence"] == "fraction"
    assert found.mean("more", "instance auc").mean > 0.7


def test_counts_are_compared_by_the_probability_of_their_ranges(problem):
    bags, y, _ = problem
    ranges = np.column_stack([y, np.where(y == 1, bags.sizes, 0)])
    found = compare_models(bags, ranges, {"one": BagGP(n_inducing=5, learn=False)}, evidence="count", folds=2)
    assert found.metric == "count range_log_likelihood"
    assert found.mean("one").n == 2, found.failed
    assert found.mean("one").mean < 0


def test_candidates_are_compared_by_the_share_of_right_classes():
    bags = make_bags(18, 2, random_state=0)[0]
    table = np.eye(3)[np.arange(18) % 3]
    table[0] = [1, 1, 0]
    model = MIPLGP(learn=False, n_inducing=6, random_state=0)
    found = compare_models(bags, table, {"one": model}, evidence="candidates", folds=2)
    assert found.metric == "class accuracy"
    assert 0 <= found.mean("one").mean <= 1
    assert found.mean("one").n == 2, found.failed
