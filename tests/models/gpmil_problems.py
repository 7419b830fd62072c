"""A problem of GPMIL, and both of its approximations."""

import pytest

from bagwise.datasets import make_bags

BOTH = pytest.mark.parametrize("approximation", ["witness", "softmax"])


def new_problem():
    bags, y, instance_y = make_bags(60, (2, 6), random_state=0)
    new, new_y, new_instance_y = make_bags(150, (2, 6), random_state=1)
    return bags, y, instance_y, new, new_y, new_instance_y
