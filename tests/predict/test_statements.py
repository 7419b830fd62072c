"""The probability of what bags state agrees with the answers that a model gives about such statements."""

import numpy as np
import pytest

from bagwise import BagGP, Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountReading, counted, read_stated
from bagwise.predict.statements import log_probability


def problem(seed=0):
    rng = np.random.default_rng(seed)
    bags = Bags(rng.normal(size=(40, 2)), np.repeat(np.arange(10), 4))
    return bags, np.bincount(bags.index, bags.X[:, 0] > 0.3).astype(int)


def fitted(bags, numbers):
    return BagGP(evidence="count", learn=False, n_inducing=10, random_state=0).fit(bags, numbers)


def tables_of(bags, y, kind):
    reading = CountReading(kind, 30.0)
    return counted(read_stated(y, bags, bags, reading), bags, reading).evidence


def test_exact_number_has_the_probability_that_the_model_gives_to_it():
    bags, numbers = problem()
    model = fitted(bags, numbers)
    found = log_probability(model._fitted(), bags, tables_of(bags, numbers, "count"))[:, 0]
    np.testing.assert_allclose(
        np.exp(found), model.predict_count_proba(bags, numbers, numbers), rtol=2e-3
    )  # two averages over points


def test_fraction_averages_its_law_over_all_numbers_of_positives():
    bags, numbers = problem()
    model, stated = fitted(bags, numbers), np.full(10, 0.4)
    evidence = tables_of(bags, stated, "fraction")
    table = evidence.tables[0].reshape(10, 5)
    chances = np.stack([model.predict_count_proba(bags, k, k) for k in range(5)], axis=1)
    found = log_probability(model._fitted(), bags, evidence)[:, 0]
    np.testing.assert_allclose(found, np.log((chances * np.exp(table)).sum(axis=1)), atol=2e-3)


def test_labels_that_are_wrong_now_and_then_and_missing_ones():
    bags, numbers = problem()
    model = fitted(bags, numbers)
    labels = np.array([1.0, 0.0, np.nan, *[1.0] * 7])[:, None]
    found = log_probability(model._fitted(), bags, CountEvidence(labels, bags.sizes, label_noise=0.1))[:, 0]
    positive = model.predict_proba(bags)[:, 1]
    assert found[0] == pytest.approx(np.log(0.1 + 0.8 * positive[0]))
    assert found[1] == pytest.approx(np.log(0.9 - 0.8 * positive[1]))
    assert found[2] == 0.0
