"""The baselines on support vector machines against small implementations of their own, by a general solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bagwise import Bags, ConvergenceWarning
from bagwise.baselines import ALPSVM, AWSVM, MICA, MISVM, NSK, SIL, MiSVM, SbMIL
from bagwise.baselines._base.alternation import alternate
from bagwise.baselines._base.kernel_baseline import mean_gram
from bagwise.baselines._base.linear_programme import one_norm_svm
from bagwise.baselines._base.smo import svm_with_margins
from bagwise.baselines.annealed_svm import beliefs_with_sum
from bagwise.baselines.sb_mil import sparse_mil

GAMMA, C = 0.5, 2.0
PLAIN = {"C": C, "gamma": GAMMA, "standardize": False, "calibration": "slope", "cv": 2, "random_state": 0}


def problem(seed=0, n_bags=12):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, n_bags)
    y = np.arange(n_bags) % 2
    index = np.repeat(np.arange(n_bags), sizes)
    X = rng.normal(size=(sizes.sum(), 2))
    first = np.cumsum(sizes) - sizes
    X[first[y == 1]] += [2.5, 0.0]
    return Bags(X, index), y


def kernel(A, B):
    return np.exp(-GAMMA * ((A[:, None, :] - B[None, :, :]) ** 2).sum(-1))


def reference_svm(gram, sign, margin=None):
    """The dual by a general solver; the intercept from the free examples."""
    margin = np.ones(len(sign)) if margin is None else margin
    Q = gram * np.outer(sign, sign)
    found = minimize(
        lambda a: (0.5 * a @ Q @ a - margin @ a, Q @ a - margin),
        np.full(len(sign), 0.1),
        jac=True,
        method="SLSQP",
        bounds=[(0, C)] * len(sign),
        constraints={"type": "eq", "fun": lambda a: a @ sign, "jac": lambda a: sign},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    alpha = found.x
    free = (alpha > 1e-4) & (alpha < C - 1e-4)
    f = gram @ (alpha * sign)
    return alpha * sign, np.mean((sign * margin - f)[free])


def reference_rows(X, sign):
    weights, intercept = reference_svm(kernel(X, X), sign)
    return lambda new: kernel(new, X) @ weights + intercept


def own_scores(model, bags):
    return model.machines_[0].machine.scores(bags)


def bag_max(values, bags):
    return np.array([values[bags.index == b].max() for b in range(len(bags))])


def test_sil_agrees_with_a_general_solver():
    bags, y = problem()
    f = reference_rows(bags.X, np.where(y[bags.index] == 1, 1.0, -1.0))
    assert np.allclose(own_scores(SIL(**PLAIN).fit(bags, y), bags), bag_max(f(bags.X), bags), atol=5e-3)


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


def test_nsk_agrees_with_a_general_solver():
    bags, y = problem()
    blocks = [bags.X[bags.index == b] for b in range(len(bags))]
    gram = np.array([[kernel(A, B).mean() for B in blocks] for A in blocks])
    assert np.allclose(mean_gram(bags, GAMMA), gram)
    weights, intercept = reference_svm(gram, np.where(y == 1, 1.0, -1.0))
    assert np.allclose(own_scores(NSK(**PLAIN).fit(bags, y), bags), gram @ weights + intercept, atol=5e-3)


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


def test_margins_of_one_give_the_ordinary_machine():
    bags, y = problem()
    sign = np.where(y == 1, 1.0, -1.0)
    gram = mean_gram(bags, GAMMA)
    weights, intercept = svm_with_margins(gram, sign, np.ones(len(y)), C, tol=1e-6)
    expected, level = reference_svm(gram, sign)
    assert np.allclose(gram @ weights + intercept, gram @ expected + level, atol=1e-3)


def test_one_norm_machine_is_optimal_among_perturbations():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.where(rng.random(20) < 0.5, 1.0, -1.0)

    def cost(w, b):
        return np.abs(w).sum() + 2.0 * np.maximum(0, 1 - y * (X @ w + b)).sum()

    w, b = one_norm_svm(X, y, 2.0)
    nearby = [cost(w + 0.05 * rng.normal(size=3), b + 0.05 * rng.normal()) for _ in range(200)]
    assert cost(w, b) <= min(nearby)


def test_linear_mica_ignores_a_feature_without_meaning():
    bags, y = problem(n_bags=24)
    wide = bags.with_features(np.column_stack([bags.X, np.random.default_rng(1).normal(size=bags.n_instances)]))
    function = MICA("linear", C=0.1, cv=2, random_state=0).fit(wide, y).machines_[0].machine.function
    assert np.abs(function.vectors[0, 0]) > 0.1
    assert np.abs(function.vectors[0, 2]) < 1e-6


def test_beliefs_sum_to_what_is_wanted_where_they_must():
    bags = Bags(np.zeros((5, 1)), [0, 0, 0, 1, 1])
    gain = np.array([-3.0, -4.0, -1.0, 2.0, 1.0])
    at_least = beliefs_with_sum(gain, bags, np.ones(2), exactly=False)
    assert at_least[:3].sum() == pytest.approx(1.0)
    assert np.allclose(at_least[3:], 1 / (1 + np.exp(-gain[3:])))
    exact = beliefs_with_sum(gain, bags, np.ones(2), exactly=True)
    assert exact[3:].sum() == pytest.approx(1.0)
    assert np.all(np.argsort(exact[:3]) == np.argsort(gain[:3]))


def test_annealing_ends_with_one_witness_per_bag_or_the_given_share_of_positives():
    bags, y = problem()
    positive = bags[y == 1]
    witness = AWSVM(**PLAIN)
    belief = witness._believe(np.arange(positive.n_instances, dtype=float), positive, 0.01)
    assert np.allclose(np.add.reduceat(belief, positive.offsets[:-1]), 1.0)
    assert np.allclose(bag_max(witness._believe(-np.arange(positive.n_instances) / 1.0, positive, 0.01), positive), 1.0)
    half = ALPSVM(positive_share=0.5, **PLAIN)._believe(np.zeros(positive.n_instances), positive, 1.0)
    assert np.allclose(half, np.maximum(0.5, 1 / positive.sizes)[positive.index])


def test_alternation_stops_when_a_choice_returns_and_warns_when_it_does_not():
    turns = iter([np.array([1]), np.array([0])])
    assert alternate(lambda choice: int(choice[0]), lambda learned: next(turns), np.array([0]), 5) == 1
    with pytest.warns(ConvergenceWarning, match="did not settle within 3 rounds"):
        alternate(lambda choice: choice, lambda learned: learned + 1, np.array([0]), 3)
