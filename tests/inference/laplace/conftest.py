"""A small problem."""

import numpy as np
import pytest
import torch
from tests.problems import random_bags


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    bags = random_bags(rng, n_bags=15)
    y = np.array([x[:, 0].max() > 0.8 for _, x in bags], dtype=float)
    assert 3 < y.sum() < 12
    return bags, torch.from_numpy(y)
