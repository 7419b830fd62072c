"""PL-kNN by hand."""

import numpy as np

from bagwise.baselines import PLKNN

RNG = np.random.default_rng(0)


def test_nearest_bags_vote_for_their_candidates():
    X, table = RNG.normal(size=(12, 2)), np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]] * 4)
    model = PLKNN(neighbours=3, standardize=False).fit(X, table)
    new = RNG.normal(size=(5, 2))
    for row, found in zip(new, model.predict_proba(new), strict=True):
        distance = np.sqrt(((X - row) ** 2).sum(1))
        near = np.argsort(distance)[:3]
        votes = sum((1 - distance[i] / distance[near].sum()) * table[i] for i in near)
        assert np.allclose(found, votes / votes.sum())
