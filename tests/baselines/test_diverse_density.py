import numpy as np
import pytest
from scipy.optimize import approx_fprime

from bagwise import Bags
from bagwise.baselines import DD, EMDD
from bagwise.baselines.diverse_density import density_loss, log_noisy_or, squared_distances, witness_loss

RNG = np.random.default_rng(0)


def planted(n_bags=30, seed=0):
    """Instances in a square; a positive bag has one more near (2, -1). The third feature says nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    rows = [rng.uniform(-4, 4, size=(5, 3)) for _ in y]
    rows = [X[np.abs(X[:, :2] - [2.0, -1.0]).max(axis=1) > 1.0] for X in rows]
    near = [rng.normal([2.0, -1.0, 0.0], [0.1, 0.1, 3.0], size=(1, 3)) for _ in y]
    return [np.concatenate([X, one]) if label else X for X, one, label in zip(rows, near, y, strict=True)], y


@pytest.mark.parametrize("method", [DD, EMDD])
def test_planted_concept_is_found_and_the_feature_without_meaning_is_ignored(method):
    X, y = planted()
    model = method(n_starts=30, standardize=False, cv=2, random_state=0).fit(X, y)
    concept = model.machines_[0].machine
    assert np.allclose(concept.target[:2], [2.0, -1.0], atol=0.15)
    assert np.abs(concept.scale[2]) < 0.2 * np.abs(concept.scale[:2]).min()
    new, new_y = planted(seed=1)
    assert model.score(new, new_y) > 0.9


def test_noisy_or_is_the_product_over_instances():
    bags = Bags(RNG.normal(size=(6, 2)), [0, 0, 0, 1, 1, 2])
    d = np.array([0.5, 2.0, 1e-3, 3.0, 25.0, 8.0])
    p = np.exp(-d)
    expected = [np.log(1 - np.prod(1 - p[bags.index == b])) for b in range(3)]
    assert np.allclose(log_noisy_or(d, bags)[0], expected, rtol=1e-9)


def test_noisy_or_of_far_instances_is_their_log_sum():
    bags = Bags(np.zeros((3, 1)), [0, 0, 1])
    found, slope = log_noisy_or(np.array([900.0, 901.0, 2000.0]), bags)
    assert np.allclose(found, [np.logaddexp(-900.0, -901.0), -2000.0])
    assert np.allclose(slope, [-1 / (1 + np.exp(-1)), -1 / (1 + np.exp(1)), -1.0])


@pytest.mark.parametrize("of_witnesses", [False, True])
def test_gradients_agree_with_finite_differences(of_witnesses):
    bags, y = Bags(np.zeros((7, 1)), [0, 0, 1, 1, 2, 3, 3]), np.array([1.0, 0.0, 1.0, 0.0])
    d = np.array([0.5, 2.0, 1.0, 3.0, 45.0, 8.0, 0.1])

    def loss(distance):
        return witness_loss(distance[[0, 2, 4, 5]], y) if of_witnesses else density_loss(distance, bags, y)

    slope = np.zeros(7)
    slope[[0, 2, 4, 5] if of_witnesses else slice(None)] = loss(d)[1]
    assert np.allclose(slope, approx_fprime(d, lambda at: loss(at)[0], 1e-7), atol=1e-5)


def test_instance_probability_is_half_at_the_distance_of_the_method_itself():
    X, y = planted()
    model = EMDD(n_starts=5, calibration="slope", cv=2, random_state=0).fit(X, y)
    bags = model._scaled(Bags(np.concatenate(X), np.arange(sum(map(len, X)))))
    concept = model.machines_[0].machine
    p = np.exp(-squared_distances(bags.X, concept.target, concept.scale))
    assert np.array_equal(model.predict_instance_proba(X)[:, 1] > 0.5, p > 0.5)
