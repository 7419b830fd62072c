"""A kernel is left where it began unless the log evidence gains enough for its free parameters, from some start."""

from dataclasses import replace

import numpy as np
import pytest
from tests.precincts import precincts

from bagwise import BagGP, Bags, ConvergenceWarning, load
from bagwise.gp.features import reassembled
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.inference.loop import Trace
from bagwise.models._base.flat_evidence import starts_told, stays, too_little, unless_flat
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


def test_numbers_thrown_by_coins_leave_the_first_kernel_whatever_the_start(by_coins):
    trace = by_coins.learning_trace_
    assert stays(trace)
    assert len(trace.gains) == 5
    assert max(trace.gains) < np.log(20)
    assert by_coins.kernel_.outputscale.item() == pytest.approx(8.0)
    assert by_coins.kernel_.base_kernel.lengthscale.item() == pytest.approx(1.0)


def test_what_every_start_gained_is_told(found_elsewhere, by_coins):
    told = starts_told(found_elsewhere.learning_trace_)
    assert told.startswith(f"5 starts gained {found_elsewhere.learning_trace_.gains[0]:.1f}, ")
    assert told.endswith(f"start {1 + int(np.argmax(found_elsewhere.learning_trace_.gains))} was the best")
    assert starts_told(by_coins.learning_trace_).endswith("so the first one stays")


def test_gains_of_starts_are_saved_with_the_model(found_elsewhere, tmp_path):
    found_elsewhere.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").learning_trace_.gains == found_elsewhere.learning_trace_.gains


def test_start_that_cannot_be_evaluated_is_told_as_a_failure():
    trace = Trace("log evidence", np.zeros(2), np.zeros(2), True, gains=(0.25, -np.inf))
    assert starts_told(trace).startswith("2 starts gained 0.2, (it failed) nats")
