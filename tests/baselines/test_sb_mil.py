"""sMIL and sbMIL against small implementations of their own, by a general solver."""

import numpy as np
from tests.baselines.support_vectors import (
    GAMMA,
    PLAIN,
    C,
    bag_max,
    kernel,
    own_scores,
    problem,
    reference_rows,
    reference_svm,
)

from bagwise.baselines import SbMIL
from bagwise.baselines.sb_mil import sparse_mil


def test_sparse_mil_agrees_with_a_general_solver():
    bags, y = problem()
    groups = [bags.X[bags.index == b] for b in np.flatnonzero(y == 1)]
    negatives = [row[None, :] for row in bags.X[y[bags.index] == 0]]
    gram = np.array([[kernel(A, B).mean() for B in groups + negatives] for A in groups + negatives])
    sign = np.repeat([1.0, -1.0], [len(groups), len(negatives)])
    margin = np.concatenate([[(2 - len(X)) / len(X) for X in groups], np.ones(len(negatives))])
    weights, intercept = reference_svm(gram, sign, margin)
    f = np.array([np.mean(kernel(bags.X, X), axis=1) for X in groups + negatives]).T @ weights + intercept
    assert np.allclose(sparse_mil(bags, y.astype(float), C, GAMMA).values(bags.X), f, atol=5e-3)


def test_sb_mil_learns_from_the_share_of_instances_that_sparse_mil_places_highest():
    bags, y = problem()
    in_positive = np.flatnonzero(y[bags.index] == 1)
    f = sparse_mil(bags, y.astype(float), C, GAMMA).values(bags.X[in_positive])
    labels = -np.ones(bags.n_instances)
    labels[in_positive[np.argsort(-f)[: round(0.4 * len(f))]]] = 1.0
    g = reference_rows(bags.X, labels)
    assert np.allclose(own_scores(SbMIL(eta=0.4, **PLAIN).fit(bags, y), bags), bag_max(g(bags.X), bags), atol=5e-3)
