"""Partial-label baselines: against brute force, finite differences and a general solver."""

import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bagwise import Bags
from bagwise.baselines import CLPL, PLAGGD, PLKNN, SURE, ConditionalMixture
from bagwise.baselines._base.candidate_baseline import summaries
from bagwise.baselines.clpl import clpl_loss
from bagwise.baselines.conditional_mixture import class_frequencies, posterior_of_regions
from bagwise.baselines.pl_aggd import _confidences, _graph, onto_simplex, ridge_regression
from bagwise.baselines.sure import confidences
from bagwise.exceptions import ConvergenceWarning

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
@pytest.mark.parametrize("method", [PLKNN, CLPL, PLAGGD, SURE, ConditionalMixture])
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


@pytest.mark.parametrize("sharpness", [0.0, 0.3, 1.0, 3.0])
def test_confidences_of_sure_are_the_best_of_a_grid(sharpness):
    outputs = RNG.normal(scale=0.6, size=(6, 3))
    table = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1]], dtype=bool)
    steps = np.arange(101) / 100
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b < 1 + 1e-9])
    found = confidences(outputs, table, sharpness)
    assert np.allclose(found.sum(axis=1), 1.0)
    for row, allowed, p in zip(outputs, table, found, strict=True):
        points = grid[(np.abs(grid[:, ~allowed]) < 1e-9).all(axis=1)]
        cost = ((points - row) ** 2).sum(axis=1) - sharpness * points.max(axis=1)
        assert ((p - row) ** 2).sum() - sharpness * p.max() <= cost.min() + 1e-9


def test_posterior_of_regions_is_bayes_rule_written_out():
    scores, classes = RNG.normal(size=(4, 2)), RNG.dirichlet(np.ones(3), size=2)
    table = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool)
    found, value = posterior_of_regions(scores, classes, table)
    total = 0.0
    for i in range(4):
        gate = np.exp(scores[i]) / np.exp(scores[i]).sum()
        joint = np.array([[gate[k] * classes[k, c] * table[i, c] for c in range(3)] for k in range(2)])
        assert np.allclose(found[i], joint / joint.sum())
        total += np.log(joint.sum())
    assert value == pytest.approx(total)


def test_frequencies_of_a_region_have_a_little_of_every_class():
    belief = RNG.random((5, 2, 3))
    for k, row in enumerate(class_frequencies(belief)):
        counts = belief[:, k].sum(axis=0) + 0.3
        assert np.allclose(row, counts / counts.sum())


def test_em_of_the_conditional_mixture_never_lowers_its_objective():
    """Fits of one round more are at least as good: the likelihood of the candidates with both priors."""
    bags, table, _ = classes(24, n_false=1)
    rows = summaries(bags, "mean")
    values = []
    for rounds in (1, 2, 4, 8):
        model = ConditionalMixture(4, C=0.5, max_rounds=rounds, standardize=False, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine = model.fit(bags, table).machines_[0].machine
        likelihood = np.log((machine.class_scores(rows) * table).sum(axis=1)).sum()
        values.append(likelihood + 0.3 * np.log(machine.classes).sum() - (machine.gate[:-1] ** 2).sum())
    assert values == sorted(values)
    assert values[-1] > values[0] + 0.1
