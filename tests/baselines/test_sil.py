"""Single-instance learning against a general solver."""

import numpy as np
from tests.baselines.support_vectors import PLAIN, bag_max, own_scores, problem, reference_rows

from bagwise.baselines import SIL


def test_sil_agrees_with_a_general_solver():
    bags, y = problem()
    f = reference_rows(bags.X, np.where(y[bags.index] == 1, 1.0, -1.0))
    assert np.allclose(own_scores(SIL(**PLAIN).fit(bags, y), bags), bag_max(f(bags.X), bags), atol=5e-3)
