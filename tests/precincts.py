"""Precincts of two groups of people, and what may be stated of them."""

import numpy as np
import pandas as pd
from scipy.stats import norm

from bagwise import Bags
from bagwise.evidence.statements import count, fraction, label


def precincts(n_bags=30, sd=0.3, seed=0, totals=(8, 60), rates=(0.25, 0.7)):
    rng = np.random.default_rng(seed)
    people = rng.integers(*totals, (n_bags, len(rates)))
    effect = rng.normal(0.0, sd, (n_bags, 1))
    positive = rng.binomial(people, norm.cdf(norm.ppf(rates) + effect))
    table = pd.DataFrame(people, columns=["young", "old"]).assign(precinct=[f"p{b}" for b in range(n_bags)])
    return Bags.from_totals(table, "precinct", ["young", "old"]), positive, people


KINDS = {
    "count": lambda k, n: count(k, k),
    "range": lambda k, n: count(np.maximum(k - 2, 0), np.minimum(k + 3, n)),
    "fraction": lambda k, n: fraction(k / n, 200.0),
    "label": lambda k, n: label((k > np.median(k)).astype(float)),
}
