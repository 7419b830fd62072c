"""A machine whose examples have margins of their own."""

import numpy as np
from tests.baselines.support_vectors import GAMMA, C, problem, reference_svm

from bagwise.baselines._base.kernel_baseline import mean_gram
from bagwise.baselines._base.smo import svm_with_margins


def test_margins_of_one_give_the_ordinary_machine():
    bags, y = problem()
    sign = np.where(y == 1, 1.0, -1.0)
    gram = mean_gram(bags, GAMMA)
    weights, intercept = svm_with_margins(gram, sign, np.ones(len(y)), C, tol=1e-6)
    expected, level = reference_svm(gram, sign)
    assert np.allclose(gram @ weights + intercept, gram @ expected + level, atol=1e-3)
