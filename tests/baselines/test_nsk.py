"""The normalised set kernel against a general solver."""

import numpy as np
from tests.baselines.support_vectors import GAMMA, PLAIN, kernel, own_scores, problem, reference_svm

from bagwise.baselines import NSK
from bagwise.baselines._base.kernel_baseline import mean_gram


def test_nsk_agrees_with_a_general_solver():
    bags, y = problem()
    blocks = [bags.X[bags.index == b] for b in range(len(bags))]
    gram = np.array([[kernel(A, B).mean() for B in blocks] for A in blocks])
    assert np.allclose(mean_gram(bags, GAMMA), gram)
    weights, intercept = reference_svm(gram, np.where(y == 1, 1.0, -1.0))
    assert np.allclose(own_scores(NSK(**PLAIN).fit(bags, y), bags), gram @ weights + intercept, atol=5e-3)
