"""A small comparison of two models."""

import pytest
from tests.compare.comparison import compared

from bagwise.datasets import make_bags


@pytest.fixture(scope="package")
def problem():
    return make_bags(36, (3, 5), random_state=0)


@pytest.fixture(scope="package")
def result(problem):
    return compared(problem)
