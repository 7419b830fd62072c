"""Bags of mixed evidence, and what their moments say."""

import numpy as np
import torch
from tests.problems import random_bags

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.evidence.statements import Evidence, count, fraction, label


def mixed_problem(seed=0, n_bags=9):
    """Fractions, ranges, labels and nothing, with a few known instances."""
    rng = np.random.default_rng(seed)
    bags = random_bags(rng, n_bags, sizes=(4, 7))
    known = np.full(bags.n_instances, np.nan)
    known[[0, 5]] = 1.0, 0.0
    statement = Evidence.concat(
        [fraction([0.4, 0.6, 0.25], 50.0), count([1, 2], [3, 2]), label([1, 0, 1]), label([np.nan])]
    )
    given = bags.with_known(known)
    chunk = ProbitCounts(read_counts(statement, given, given, CountReading("label", 1.0)).evidence).chunk(
        slice(0, n_bags), torch.float64, torch.device("cpu")
    )
    return bags, chunk
