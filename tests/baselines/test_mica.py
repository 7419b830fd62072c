"""MICA: convex combinations of instances as witnesses."""

import numpy as np
from tests.baselines.support_vectors import problem

from bagwise.baselines import MICA


def test_linear_mica_ignores_a_feature_without_meaning():
    bags, y = problem(n_bags=24)
    wide = bags.with_features(np.column_stack([bags.X, np.random.default_rng(1).normal(size=bags.n_instances)]))
    function = MICA("linear", C=0.1, cv=2, random_state=0).fit(wide, y).machines_[0].machine.function
    assert np.abs(function.vectors[0, 0]) > 0.1
    assert np.abs(function.vectors[0, 2]) < 1e-6
