"""mi-SVM against a small implementation of its own, by a general solver."""

import numpy as np
import pytest
from tests.baselines.support_vectors import PLAIN, bag_max, own_scores, problem, reference_rows

from bagwise.baselines import MiSVM


@pytest.mark.parametrize("seed", [0, 3])  # in the second a positive bag would lose all its positives
def test_mi_svm_agrees_with_a_general_solver(seed):
    bags, y = problem(seed)
    labels = y[bags.index] == 1
    while True:
        f = reference_rows(bags.X, np.where(labels, 1.0, -1.0))(bags.X)
        new = (f > 0) & (y[bags.index] == 1)
        for b in np.flatnonzero(y == 1):
            rows = np.flatnonzero(bags.index == b)
            new[rows[np.argmax(f[rows])]] = True
        if (new == labels).all():
            break
        labels = new
    assert 0 < labels.sum() < (y[bags.index] == 1).sum()
    assert np.allclose(own_scores(MiSVM(**PLAIN).fit(bags, y), bags), bag_max(f, bags), atol=5e-3)
