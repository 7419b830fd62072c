"""What baselines share: whole weights are the same as repeated bags."""

import numpy as np
import pytest
from tests.problems import random_bags

from bagwise import BagDataError
from bagwise.baselines import (
    ALPSVM,
    ALSVM,
    AWSVM,
    EMDD,
    MICA,
    MILES,
    MISVM,
    NSK,
    PLKNN,
    SIL,
    AttentionMIL,
    BagStatisticsSVM,
    MeanMap,
    MiSVM,
    SbMIL,
)

WEIGHTS = np.array([2, 1, 3, 1, 1, 2, 1, 1, 2, 2, 3, 1, 1, 2, 1, 1.0])


TIMES = np.repeat(np.arange(16), WEIGHTS.astype(int))


RANDOM = 3


@pytest.fixture(scope="module")
def bags():
    return random_bags(np.random.default_rng(3), n_bags=16, sizes=(1, 4), n_features=2)


@pytest.fixture(scope="module")
def y(bags):
    return np.array([float((X[:, 0] > 0.6).any()) for _, X in bags])


@pytest.mark.parametrize("kind", [SIL, MiSVM, MISVM, NSK, ALSVM, ALPSVM, AWSVM, MILES], ids=lambda kind: kind.__name__)
def test_machine_of_weighted_bags_is_that_of_repeated_ones(kind, bags, y):
    model = kind(gamma=0.5, C=2.0)
    weighted, repeated, plain = (
        model._learn(bags[chosen], y[chosen], np.random.RandomState(RANDOM), weight).scores(bags)
        for chosen, weight in ((np.arange(16), WEIGHTS), (TIMES, np.ones(len(TIMES))), (np.arange(16), np.ones(16)))
    )
    np.testing.assert_allclose(weighted, repeated, atol=0.02)
    assert np.abs(plain - repeated).max() > 0.05  # the weights did matter


def test_concepts_of_weighted_bags_are_those_of_repeated_ones(bags, y):
    """MICA draws its centres from the rows, so that it is given few enough to take all of them."""
    model = MICA(gamma=0.5, n_centres=1000)
    found = [
        model._learn(bags[chosen], y[chosen], np.random.RandomState(RANDOM), weight).scores(bags)
        for chosen, weight in ((np.arange(16), WEIGHTS), (TIMES, np.ones(len(TIMES))))
    ]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_weights_multiply_the_loss_of_the_network(bags, y):
    model = AttentionMIL(n_epochs=30, batch_bags=16, hidden=4, attention=3, learning_rate=0.01)
    one, five, heavy = (
        model._learn(bags, y, np.random.RandomState(RANDOM), weight).scores(bags)
        for weight in (np.ones(16), np.full(16, 5.0), np.where(y == 1, 20.0, 1.0))
    )
    np.testing.assert_allclose(one, five, atol=1e-3)  # Adam does not feel the size of the loss
    assert heavy.mean() > one.mean() + 0.02


def test_calibration_counts_weights(bags, y):
    """The same bags, positive ones with more weight: their probabilities rise."""
    heavy = np.where(y == 1, 5.0, 1.0)
    plain, weighted = (SIL(random_state=0).fit(bags, y, sample_weight=weight) for weight in (None, heavy))
    assert (weighted.predict_proba(bags) > plain.predict_proba(bags))[:, 1].all()


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (SbMIL(random_state=0), None),
        (EMDD(n_starts=1, random_state=0), None),
        (MeanMap(random_state=0), "fractions"),
        (PLKNN(random_state=0), "candidates"),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "fit") else "",
)
def test_methods_without_weights_take_whole_numbers_and_say_so(model, labels, bags, y):
    told = {None: y, "fractions": y * 0.5, "candidates": [{"a", "b"} if v else {"b"} for v in y]}[labels]
    again = [told[number] for number in TIMES] if labels == "candidates" else told[TIMES]
    weighted = model.fit(bags, told, sample_weight=WEIGHTS).predict_proba(bags)
    np.testing.assert_array_equal(weighted, model.fit(bags[TIMES], again).predict_proba(bags))
    with pytest.raises(BagDataError, match=r"sample_weight of bag '0' is 0.5, but \w+ takes whole numbers only"):
        model.fit(bags, told, sample_weight=np.full(16, 0.5))


def test_the_machine_of_statistics_passes_weights_on(bags, y):
    model = BagStatisticsSVM(C=(1.0,), gamma=(0.1,), cv=2, random_state=0)
    plain = model.fit(bags, y).decision_function(bags)
    heavy = model.fit(bags, y, sample_weight=np.where(y == 1, 10.0, 1.0)).decision_function(bags)
    assert heavy.mean() > plain.mean()
