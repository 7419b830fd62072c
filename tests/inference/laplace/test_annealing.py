"""Witness weights: the bags × bags form against the instances × instances one, annealing that settles, sparse rows."""

import functools

import numpy as np
import pytest
import torch
from tests.inference.laplace.pooled_problems import exact_features, losses, variance_of
from tests.problems import segments_of

from bagwise import Bags
from bagwise.bag_models.soft_max import hard_witness, soft_witness, uniform_weights
from bagwise.inference.laplace.annealing import (
    FIRST_SHARPNESS,
    MOST_STAGES,
    Annealing,
    Schedule,
    WeightsInMemory,
    anneal,
    anneal_columns,
    annealed_weights,
    sharpness_at,
)
from bagwise.inference.laplace.mode import ModeLimits
from bagwise.inference.laplace.pooled_rows import rows_of
from bagwise.inference.loop import Watch


def test_annealing_settles_and_finds_the_witnesses(problem):
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(variance_of(features.kernel, 8.0))
    found = WeightsInMemory(rows, losses(labels))
    assert anneal(found, Schedule(4), ModeLimits(200, 1e-2)).trace.converged
    heaviest = [part.argmax() for part in np.split(found.weights.numpy(), bags.offsets[1:-1])]
    truth = [x[:, 0].argmax() for _, x in bags]
    positive = labels.numpy() == 1
    assert np.mean(np.array(heaviest)[positive] == np.array(truth)[positive]) > 0.7
    torch.testing.assert_close(segments_of(bags.sizes).sum(found.weights), torch.ones(len(bags), dtype=torch.float64))


def test_without_averaging_the_weights_cycle(problem):
    """What the averaging is for: the plain alternation still moves whole weights after a hundred rounds."""
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(variance_of(features.kernel, 8.0))
    state, rule = WeightsInMemory(rows, losses(labels)), functools.partial(soft_witness, sharpness=100.0)
    with torch.no_grad():
        for _ in range(100):
            state.fit()
            last = state.move(rule, 1.0)
    assert last > 0.5


def scores_written_out(K, P, loss):
    """F at the mode of Σ ℓ(P F) + ½ Fᵀ K⁻¹ F, by Newton's method over all N latent values."""
    F = torch.zeros(len(K), dtype=torch.float64)
    for _ in range(60):
        W = P.T @ torch.diag(loss.bend(P @ F)) @ P
        right = W @ F - P.T @ loss.slope(P @ F)
        F = torch.linalg.solve(torch.eye(len(F), dtype=F.dtype) + K @ W, K @ right)
    return F


@pytest.mark.parametrize("witnesses", ["soft", "alternating"])
def test_alternation_without_averaging_is_the_published_one_written_out(problem, witnesses):
    """Step (i) weights by (29) or (28), step (ii) a fit with the weights held fixed, in turn."""
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    phi, segments = torch.from_numpy(features.transform(bags)[0]), segments_of(bags.sizes)
    found = WeightsInMemory(rows_of(features, bags, exact=True)(features.kernel), losses(labels))
    state = Annealing(found, Schedule(1, witnesses, averaged=False))
    weights, K = uniform_weights(segments), phi @ phi.T
    for _ in range(4):
        P = torch.zeros(len(bags), len(phi), dtype=torch.float64)
        P[segments.index, torch.arange(len(phi))] = weights
        F = scores_written_out(K, P, losses(labels))
        weights = soft_witness(F, segments, 0.1) if witnesses == "soft" else hard_witness(F, segments)
        with torch.no_grad():
            state.step()
        torch.testing.assert_close(found.weights, weights, rtol=0, atol=1e-5)


def test_annealing_goes_on_until_nothing_changes(problem):
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(features.kernel)
    bags_of = WeightsInMemory(rows, losses(labels))
    found = anneal(bags_of, Schedule(None), ModeLimits(200, 1e-2))
    assert sharpness_at(2) < found.sharpness <= sharpness_at(MOST_STAGES - 1)
    if found.sharpness < sharpness_at(MOST_STAGES - 1):  # it stopped by itself: a temperature less says the same
        stages = round(np.log10(found.sharpness / FIRST_SHARPNESS))
        shorter = annealed_weights(rows, losses(labels), Schedule(stages))
        assert float((bags_of.weights - shorter).abs().max()) < 0.02


def test_annealing_of_bags_of_one_ends_after_three_temperatures():
    bags = Bags(np.random.default_rng(0).normal(size=(8, 2)), np.arange(8))
    features = exact_features(bags)
    rows = rows_of(features, bags, exact=True)(features.kernel)
    found = anneal(WeightsInMemory(rows, losses(torch.arange(8.0, dtype=torch.float64) % 2)), Schedule(None))
    assert found.sharpness == sharpness_at(2)
    assert found.trace.converged


def test_the_schedule_is_the_published_one():
    assert FIRST_SHARPNESS == 0.1
    assert [sharpness_at(stage) for stage in range(4)] == pytest.approx([0.1, 1.0, 10.0, 100.0])


def test_every_temperature_down_to_the_last_has_its_rounds(problem):
    """The residual counts the temperatures that are still to come."""
    bags, labels = problem
    rows = rows_of(exact_features(bags), bags, exact=True)(exact_features(bags).kernel)
    with torch.no_grad():
        state = Annealing(WeightsInMemory(rows, losses(labels)), Schedule(3))
        residuals = [state.step().residual for _ in range(46)]
    assert residuals == sorted(residuals, key=lambda value: -int(value))
    assert {int(residual) for residual in residuals} == {2, 1, 0}


def test_hard_witnesses_put_all_weight_on_one_instance(problem):
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    rows = rows_of(features, bags, exact=True)(features.kernel)
    weights = annealed_weights(rows, losses(labels), Schedule(3, "hard"))
    assert set(weights.unique().tolist()) == {0.0, 1.0}


def test_the_witness_is_the_largest_score(problem):
    bags, _ = problem
    F = torch.from_numpy(np.random.default_rng(5).normal(size=bags.n_instances))
    segments = segments_of(bags.sizes)
    assert (hard_witness(F, segments) == 1.0).sum() == len(bags)


def test_columns_after_an_interruption_get_one_round_each(problem):
    bags, labels = problem
    rows = rows_of(exact_features(bags), bags, exact=True)(exact_features(bags).kernel)

    def interrupt(iteration, _):
        if iteration == 3:
            raise KeyboardInterrupt

    limits = ModeLimits(40, 1e-9, Watch("", 0, interrupt))
    weights = (WeightsInMemory(rows, losses(column)) for column in (labels, 1.0 - labels, labels))
    rounds = [len(found.trace) for _, found in anneal_columns(weights, Schedule(3), limits)]
    assert rounds == [3, 1, 1]
