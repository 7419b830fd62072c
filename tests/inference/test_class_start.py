"""Where classes have to be guessed."""

import numpy as np
import torch
from tests.problems import features_of

from bagwise import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.inference import class_start
from bagwise.inference.class_start import guessed_classes, leaves_choice


def test_only_sets_of_several_candidates_leave_a_choice():
    known = torch.tensor([[True, False, False], [False, False, False]])
    assert not leaves_choice(known)
    assert leaves_choice(known | torch.tensor([[True, True, False], [False, False, False]]))


def planted(shares, n_false, distance, seed):
    """200 bags of six instances in six dimensions, two of which lie around the centre of the class of the bag."""
    rng = np.random.RandomState(seed)
    n_classes = len(shares)
    centres = rng.randn(n_classes, 6)
    centres *= distance / np.linalg.norm(centres, axis=1, keepdims=True)
    y = rng.choice(n_classes, 200, p=shares)
    X = rng.randn(200, 6, 6)
    X[:, :2] = centres[y][:, None] + 0.7 * rng.randn(200, 2, 6)
    bags = Bags(X.reshape(-1, 6), np.repeat(np.arange(200), 6))
    table = np.eye(n_classes + 1, dtype=bool)[y]
    for row in table:
        row[rng.choice(np.flatnonzero(~row[:-1]), n_false, replace=False)] = True
    return bags, ClassEvidence(table, bags.offsets), y


def guesses_of(bags, evidence):
    features = features_of(bags, bias=5.0, n_inducing=60, lengthscale=2.0)
    return guessed_classes(features, bags, evidence, 0).evidence.table.argmax(1)


def test_no_class_takes_the_bags_of_another_where_sets_are_broad(monkeypatch):
    """Three false candidates of five; left alone one class ends with seven bags in eight."""
    bags, evidence, y = planted((0.2,) * 5, n_false=3, distance=2.0, seed=1)
    assert np.mean(guesses_of(bags, evidence) == y) > 0.8
    monkeypatch.setattr(class_start, "held_to_law", lambda table, scores, slack: scores)
    alone = guesses_of(bags, evidence)
    assert np.bincount(alone, minlength=5).max() > 150
    assert np.mean(alone == y) < 0.5


def test_class_of_most_bags_is_guessed_more_often_than_it_is_named():
    """The first class has 0.64 of the bags and is named 0.42 times per bag."""
    bags, evidence, y = planted((0.6, 0.2, 0.1, 0.1), n_false=1, distance=2.5, seed=2)
    named = (evidence.table / evidence.table.sum(1, keepdims=True)).mean(0)
    guesses = guesses_of(bags, evidence)
    assert np.mean(guesses == y) > 0.97
    assert np.mean(guesses == 0) > named[0] + 0.15
