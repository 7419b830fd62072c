"""Data that a paper describes but does not hold: the recovery experiment of Kim & De la Torre."""

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POOL, LENGTHSCALE, N_BAGS, LARGEST_BAG = 1000, 3.0, 100, 10


def recovery_bags(function_seed: int, bag_seed: int) -> tuple[Bags, Ints]:
    """Bags on a line whose labels are signs of a function drawn from a GP with lengthscale 3 (GPMIL, section 6.1)."""
    random = np.random.default_rng(function_seed)
    x = random.uniform(-30.0, 30.0, POOL)
    covariance = np.exp(-0.5 * ((x[:, None] - x) / LENGTHSCALE) ** 2)
    f = np.linalg.cholesky(covariance + 1e-8 * np.eye(POOL)) @ random.standard_normal(POOL)
    inside, outside = x[f > 0], x[f <= 0]
    draw = np.random.default_rng(bag_seed)
    y = draw.permuted(np.arange(N_BAGS) % 2)
    return Bags.from_list([_recovery_bag(label, inside, outside, draw) for label in y]), y


def _recovery_bag(label: int, inside: Floats, outside: Floats, random: np.random.Generator) -> Floats:
    size = int(random.integers(1, LARGEST_BAG + 1))
    n_positive = int(np.ceil(random.integers(1, 11) / 10 * size)) if label else 0
    rows = np.concatenate([random.choice(inside, n_positive), random.choice(outside, size - n_positive)])
    return rows[:, None]
