"""Pictures without a screen, and the models that are drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bagwise import MILGPProbit
from bagwise.datasets import make_bags


@pytest.fixture(autouse=True)
def quiet_plots():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="package")
def data():
    return make_bags(30, (4, 6), 4, random_state=0)


@pytest.fixture(scope="package")
def model(data):
    bags, y, _ = data
    return MILGPProbit(n_inducing=10, max_iter=5, random_state=0).fit(bags, y)


@pytest.fixture(scope="package")
def two_labels(data):
    bags, y, _ = data
    return MILGPProbit(n_inducing=10, max_iter=5, random_state=0).fit(bags, np.stack([y, 1 - y], axis=1))
