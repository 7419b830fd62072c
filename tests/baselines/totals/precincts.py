"""Precincts of two groups of people."""

import numpy as np
import pandas as pd

from bagwise import Bags


def precincts(n=80, seed=0, size=2000):
    """People of two groups and positives among them: rates around .3 and .7."""
    rng = np.random.default_rng(seed)
    first = (size * rng.uniform(0.05, 0.95, n)).astype(int)
    people = np.column_stack([first, size - first])
    rates = np.clip(rng.normal([0.3, 0.7], [0.08, 0.08], (n, 2)), 0, 1)
    positive = rng.binomial(people, rates)
    table = pd.DataFrame(people, columns=["few", "many"]).assign(precinct=np.arange(n))
    return Bags.from_totals(table, "precinct", ["few", "many"]), positive.sum(1) / size, positive / people
