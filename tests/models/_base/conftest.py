"""A small problem."""

import numpy as np
import pytest
from tests.models._base.small_models import probit
from tests.problems import random_bags, random_labels


@pytest.fixture(scope="package")
def problem():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=24, sizes=(2, 5))
    return bags, random_labels(rng, bags)


@pytest.fixture(scope="package")
def fitted(problem):
    return probit().fit(*problem)
