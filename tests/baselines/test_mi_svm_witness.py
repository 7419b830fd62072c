"""MI-SVM against a small implementation of its own, by a general solver."""

import numpy as np
from tests.baselines.support_vectors import PLAIN, bag_max, own_scores, problem, reference_rows

from bagwise.baselines import MISVM


def test_mi_svm_with_witnesses_agrees_with_a_general_solver():
    bags, y = problem()
    negatives = bags.X[y[bags.index] == 0]
    positive = np.flatnonzero(y == 1)
    witnesses = np.array([bags.X[bags.index == b].mean(0) for b in positive])
    sign = np.repeat([1.0, -1.0], [len(witnesses), len(negatives)])
    while True:
        f = reference_rows(np.concatenate([witnesses, negatives]), sign)
        rows = [bags.X[bags.index == b] for b in positive]
        new = np.array([X[np.argmax(f(X))] for X in rows])
        if np.array_equal(new, witnesses):
            break
        witnesses = new
    assert np.allclose(own_scores(MISVM(**PLAIN).fit(bags, y), bags), bag_max(f(bags.X), bags), atol=5e-3)
