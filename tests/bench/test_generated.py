"""Generated problems of the tables."""

import numpy as np
from tests.bench.benchmark_files import place

from bagwise.bench.description import DataSet
from bagwise.bench.generated import recovery_bags
from bagwise.bench.protocols import RecoveryTrials


def test_recovery_keeps_or_draws_the_function():
    for key, same in (("one", True), ("", False)):
        data = DataSet("trial", key=key)
        pools = [
            {round(float(x), 9) for x in RecoveryTrials().split(place(None, repeat=r, data=data)).parts[0].bags.X[:, 0]}
            for r in (0, 1)
        ]
        assert bool(pools[0] & pools[1]) == same
    bags, y = recovery_bags(3, 4)
    assert len(bags) == 100
    assert y.sum() == 50
    assert set(bags.sizes) <= set(range(1, 11))
    assert np.abs(bags.X).max() <= 30
