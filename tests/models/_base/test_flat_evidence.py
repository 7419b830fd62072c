"""A kernel is left where it began unless the log evidence gains enough for its free parameters."""

import numpy as np
import pytest
from tests.precincts import precincts

from bagwise import BagGP
from bagwise.gp.features import reassembled
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.inference.loop import Trace
from bagwise.models._base.flat_evidence import unless_flat


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


def test_kernel_stays_where_the_gain_is_too_small_for_two_parameters(features):
    found = unless_flat(features, learned(features, 4.0), None, 60)
    assert found.features is features
    assert found.trace.name == "log evidence, flat: the kernel stays"


def test_kernel_is_learned_where_the_gain_is_large_enough(features):
    """For two parameters and 60 bags that is log 60 = 4.09."""
    kernel = unless_flat(features, learned(features, 4.2), None, 60).features.kernel
    assert kernel.outputscale.item() == pytest.approx(77.0)


def test_search_that_begins_at_a_kernel_found_before_is_not_judged_again(features):
    begin = other_kernel(features)
    assert unless_flat(features, learned(features, 0.0), begin, 60).features is not features
    assert unless_flat(features, learned(features, 0.0), features, 60).features is features
