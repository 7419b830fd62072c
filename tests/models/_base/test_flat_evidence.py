"""A kernel is left where it began unless the log evidence gains more than chance does."""

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


def test_kernel_stays_where_the_gain_is_what_chance_reaches(features):
    found = unless_flat(features, learned(features, 2.9), None)
    assert found.features is features
    assert found.trace.name == "log evidence, flat: the kernel stays"


def test_kernel_is_learned_where_the_gain_is_more_than_chance_reaches(features):
    """Half the 95 % point of chi-square with two degrees of freedom is 3.00."""
    kernel = unless_flat(features, learned(features, 3.1), None).features.kernel
    assert kernel.outputscale.item() == pytest.approx(77.0)


def test_search_that_begins_at_a_kernel_found_before_is_not_judged_again(features):
    begin = other_kernel(features)
    assert unless_flat(features, learned(features, 0.0), begin).features is not features
    assert unless_flat(features, learned(features, 0.0), features).features is features
