"""Partial-label baselines: against brute force, finite differences and a general solver."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bagwise import Bags
from bagwise.baselines import CLPL, PLAGGD, PLKNN
from bagwise.baselines._base.candidate_baseline import summaries
from bagwise.baselines.clpl import clpl_loss
from bagwise.baselines.pl_aggd import _confidences, _graph, onto_simplex, ridge_regression

RNG = np.random.default_rng(0)


def classes(n_bags=60, seed=0, n_false=1):
    """Three classes, each around a corner of its own, and ``n_false`` false candidates per bag."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    rows = rng.normal(size=(n_bags, 4, 2)) + 3.0 * np.array([[0, 0], [1, 0], [0, 1]])[y][:, None, :]
    table = np.eye(3, dtype=int)[y]
    for row, label in zip(table, y, strict=True):
        row[rng.permutation([c for c in range(3) if c != label])[:n_false]] = 1
    return Bags(rows.reshape(-1, 2), np.repeat(np.arange(n_bags), 4)), table, y


@pytest.mark.parametrize("summary", ["mean", "maxmin"])
@pytest.mark.parametrize("method", [PLKNN, CLPL, PLAGGD])
def test_classes_are_learned_from_candidates(method, summary):
    bags, table, _ = classes()
    new, _, y = classes(seed=1)
    cheap = {"max_rounds": 3} if method is PLAGGD else {}
    model = method(summary=summary, random_state=0, **cheap).fit(bags, table)
    assert model.score(new, y) > 0.85
    assert (model.predict_instance_proba(new)[:, -1] == 0).all()


def test_summaries_are_means_or_extremes():
    bags = Bags(np.array([[1.0, 5.0], [3.0, -1.0], [2.0, 2.0]]), ["a", "a", "b"])
    assert summaries(bags, "mean").tolist() == [[2, 2], [2, 2]]
    assert summaries(bags, "maxmin").tolist() == [[3, 5, 1, -1], [2, 2, 2, 2]]


def test_nearest_bags_vote_for_their_candidates():
    X, table = RNG.normal(size=(12, 2)), np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]] * 4)
    model = PLKNN(neighbours=3, standardize=False).fit(X, table)
    new = RNG.normal(size=(5, 2))
    for row, found in zip(new, model.predict_proba(new), strict=True):
        distance = np.sqrt(((X - row) ** 2).sum(1))
        near = np.argsort(distance)[:3]
        votes = sum((1 - distance[i] / distance[near].sum()) * table[i] for i in near)
        assert np.allclose(found, votes / votes.sum())


def test_gradient_of_the_convex_loss_agrees_with_finite_differences():
    table = np.array([[1, 1, 0], [0, 1, 0]], dtype=bool)
    scores = RNG.normal(size=6)
    slope = approx_fprime(scores, lambda s: clpl_loss(s.reshape(2, 3), table)[0], 1e-7)
    assert np.allclose(clpl_loss(scores.reshape(2, 3), table)[1].ravel(), slope, atol=1e-5)


def test_convex_loss_of_a_single_candidate_is_one_against_all():
    table = np.array([[False, True, False]])
    value, _ = clpl_loss(np.array([[0.5, 0.2, -2.0]]), table)
    assert value == pytest.approx(0.8**2 + 1.5**2)


def test_projection_onto_the_simplex_is_the_nearest_point():
    allowed = np.array([[True, True, False, True], [False, True, False, False]])
    values = RNG.normal(size=(2, 4))
    found = onto_simplex(values, allowed)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert (found[~allowed] == 0).all()
    nearest = minimize(
        lambda x: ((x - values[0, allowed[0]]) ** 2).sum(),
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    ).x
    assert np.allclose(found[0, allowed[0]], nearest, atol=1e-5)


def test_ridge_regression_minimises_its_objective():
    X, targets = RNG.normal(size=(8, 2)), RNG.normal(size=(8, 1))
    gram = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))

    def cost(flat):
        a, b = flat[:-1, None], flat[-1]
        return ((gram @ a + b - targets) ** 2).sum() + 0.5 * (a * (gram @ a)).sum()

    a, b = ridge_regression(gram, targets, 0.5)
    best = minimize(cost, np.zeros(9), tol=1e-12).fun
    assert cost(np.append(a[:, 0], b)) == pytest.approx(best, rel=1e-5)


def test_graph_and_confidences_lower_what_they_minimise():
    X, table = RNG.normal(size=(10, 3)), np.array([[1, 1, 0], [0, 1, 1]] * 5, dtype=bool)
    near = ~np.eye(10, dtype=bool)
    start = near / 9.0
    weight = _graph(start, near, X @ X.T)
    assert ((X - weight @ X) ** 2).sum() < 0.9 * ((X - start @ X) ** 2).sum()
    assert np.allclose(weight.sum(axis=1), 1.0)
    outputs, belief = RNG.normal(size=(10, 3)), table / 2.0

    def cost(F):
        return ((F - outputs) ** 2).sum() + 2.0 * ((F - weight @ F) ** 2).sum()

    found = _confidences(belief, table, outputs, weight, 2.0)
    assert cost(found) < cost(belief)
    nearby = [onto_simplex(found + 0.05 * RNG.normal(size=found.shape), table) for _ in range(50)]
    assert cost(found) <= min(map(cost, nearby)) + 1e-6
