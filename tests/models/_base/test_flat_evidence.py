"""A kernel is left where it began unless the log evidence gains enough for its free parameters, from some start."""

from dataclasses import replace

import gpytorch
import numpy as np
import pytest
from tests.precincts import precincts

from bagwise import BagGP, Bags, ConvergenceWarning, load
from bagwise.gp.capacity import capacity
from bagwise.gp.features import reassembled
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.inference.loop import Trace
from bagwise.models._base.flat_evidence import is_simpler, starts_told, stays, too_little, unless_flat
from bagwise.models._base.learned_kernel import warn_if_unsettled


@pytest.fixture(scope="module")
def features():
    bags, positive, _ = precincts(6)
    settings = {"evidence": "count", "group_effect": 0.2, "n_inducing": 2, "random_state": 0}
    return BagGP(**settings).fit(bags, positive.sum(1)).features_  # a variance and a lengthscale


def other_kernel(features):
    changed = reassembled(features, kernel=type(features.kernel)(features.kernel.base_kernel).double())
    changed.kernel.outputscale = 77.0
    return changed


def learned(features, gain):
    return Learned(other_kernel(features), Trace("log evidence", np.array([-9.0, -9.0 + gain]), np.zeros(2), True))


def judged(features, gain, begin=None):
    return unless_flat(features, learned(features, gain), too_little(features, begin, 60))


def test_kernel_stays_where_the_gain_is_too_small_for_two_parameters(features):
    found = judged(features, 4.0)
    assert found.features is features
    assert found.trace.name == "log evidence, flat: the kernel stays"


def test_kernel_is_learned_where_the_gain_is_large_enough(features):
    """For two parameters and 60 bags that is log 60 = 4.09."""
    assert judged(features, 4.2).features.kernel.outputscale.item() == pytest.approx(77.0)


def test_search_that_begins_at_a_kernel_found_before_is_not_judged_again(features):
    assert judged(features, 0.0, begin=other_kernel(features)).features is not features
    assert judged(features, 0.0, begin=features).features is features


def test_flat_search_that_did_not_settle_says_that_the_first_kernel_stays(features):
    found = judged(features, 4.0)
    with pytest.warns(ConvergenceWarning, match="before it settled.*so the first one stays"):
        warn_if_unsettled(replace(found.trace, converged=False))
    with pytest.warns(ConvergenceWarning, match="the best kernel found is kept"):
        warn_if_unsettled(replace(judged(features, 9.0).trace, converged=False))


# ---------------------------------------------------------------- several starts


def stripes(n_bags=30, size=3):
    """Bags of random points on a line, where stripes of width ½ are positive and negative in turn."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (n_bags * size, 1))
    positive = (np.sin(2.0 * np.pi * X[:, 0]) > 0).astype(int)
    return Bags(X, np.repeat(np.arange(n_bags), size)), positive


def counted_fit(bags, numbers):
    return BagGP(evidence="count", n_inducing=40, random_state=0).fit(bags, numbers)


@pytest.fixture(scope="module")
def found_elsewhere():
    bags, positive = stripes()
    return counted_fit(bags, np.add.reduceat(positive, bags.offsets[:-1]))


@pytest.fixture(scope="module")
def by_coins():
    """Numbers of positives that have nothing to do with the instances."""
    bags, _ = stripes(20, 2)
    return counted_fit(bags, np.random.default_rng(0).binomial(2, 0.5, len(bags)))


def test_stripes_are_found_from_another_start_where_the_usual_one_gains_too_little(found_elsewhere):
    bags, positive = stripes()
    trace = found_elsewhere.learning_trace_
    assert len(trace.gains) == 5
    assert trace.gains[0] < np.log(len(bags)) < 10.0 < max(trace.gains)
    assert max(trace.gains) == pytest.approx(trace.values[-1] - trace.values[0])
    assert found_elsewhere.kernel_.base_kernel.lengthscale.item() < 0.5
    assert (found_elsewhere.predict_instances(bags) == positive).mean() > 0.9


def test_numbers_thrown_by_coins_lead_to_a_more_cautious_kernel_alone(by_coins):
    bags, _ = stripes(20, 2)
    trace = by_coins.learning_trace_
    assert trace.name.endswith("flat: the kernel is simpler than the first")
    assert len(trace.gains) == 5
    assert max(trace.gains) < np.log(20)
    first = BagGP(evidence="count", kernel=first_kernel(), learn=False, n_inducing=40, random_state=0)
    first.fit(bags, np.random.default_rng(0).binomial(2, 0.5, len(bags)))
    assert capacity(by_coins.features_, bags) < 0.8 * capacity(first.features_, bags)
    doubt = [np.abs(model.predict_instance_proba(bags) - 0.5).max() for model in (by_coins, first)]
    assert doubt[0] < doubt[1] - 0.05


def first_kernel():
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 8.0, 1.0
    return kernel


def test_kernel_that_can_do_more_stays_out_where_it_gains_too_little(features):
    """Of two kernels that hardly differ in evidence it is the simpler one that is right to be taken."""
    bags, _, _ = precincts(6)
    rougher = other_kernel(features)
    assert capacity(rougher, bags) > capacity(features, bags)
    assert is_simpler(rougher, features, bags)
    assert not is_simpler(features, rougher, bags)
    assert not is_simpler(features, features, bags)


def test_simpler_kernel_is_taken_before_bags_are_left_out(features):
    def never(other):
        raise AssertionError("bags need not be left out")

    found = unless_flat(features, learned(features, 1.0), 4.1, lambda other: True, never)
    assert found.features is not features
    assert starts_told(replace(found.trace, gains=(0.5, 1.0))).endswith("the best of them is simpler than the first")
    assert unless_flat(features, learned(features, 1.0), 4.1, lambda other: False).features is features


def test_kernel_that_gained_nothing_is_not_taken_for_being_simpler(features):
    """Numbers that every kernel explains alike say nothing about it: a search then ends where rounding leads it."""
    found = unless_flat(features, learned(features, 1e-9), 4.1, lambda other: True, lambda other: True)
    assert found.features is features
    assert stays(found.trace)


def test_what_every_start_gained_is_told(found_elsewhere, by_coins):
    told = starts_told(found_elsewhere.learning_trace_)
    assert told.startswith(f"5 starts gained {found_elsewhere.learning_trace_.gains[0]:.1f}, ")
    assert told.endswith(f"start {1 + int(np.argmax(found_elsewhere.learning_trace_.gains))} was the best")
    assert starts_told(by_coins.learning_trace_).endswith("the best of them is simpler than the first")
    stayed = replace(judged(found_elsewhere.features_, 1.0).trace, gains=(0.5, 1.0))
    assert starts_told(stayed).endswith("so the first one stays")


def test_gains_of_starts_are_saved_with_the_model(found_elsewhere, tmp_path):
    found_elsewhere.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").learning_trace_.gains == found_elsewhere.learning_trace_.gains


def test_start_that_cannot_be_evaluated_is_told_as_a_failure():
    trace = Trace("log evidence", np.zeros(2), np.zeros(2), True, gains=(0.25, -np.inf))
    assert starts_told(trace).startswith("2 starts gained 0.2, (it failed) nats")
