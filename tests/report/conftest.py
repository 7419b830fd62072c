"""Models to report on."""

import numpy as np
import pytest

from bagwise import BagGP, MILGPProbit
from bagwise.datasets import make_bags


@pytest.fixture(scope="package")
def data():
    return make_bags(40, (4, 15), 4, random_state=0)


@pytest.fixture(scope="package")
def model(data):
    bags, y, _ = data
    return MILGPProbit(n_inducing=12, max_iter=8, random_state=0).fit(bags, y)


@pytest.fixture(scope="package")
def told(data):
    """Bags, how many positives they hold, and a model fitted to the fractions."""
    bags, _, instance_y = data
    numbers = np.add.reduceat(instance_y, bags.offsets[:-1])
    settings = {"learn": False, "n_inducing": 12, "random_state": 0}
    return bags, numbers, BagGP(evidence="fraction", **settings).fit(bags, numbers / bags.sizes)
