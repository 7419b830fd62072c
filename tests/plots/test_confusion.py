"""Confusion of classes, and the reliability of one class."""

import numpy as np
import pytest

from bagwise import BagGP, Bags
from bagwise.exceptions import BagDataError
from bagwise.plots import ConfusionDisplay, ReliabilityDisplay

Y, FOUND = ["a", "a", "b", "c", "c"], ["a", "b", "b", "c", "a"]


def test_confusion_counts_bags_and_marks_what_candidates_left_open():
    table = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    display = ConfusionDisplay.from_predictions(Y, FOUND, candidates=table)
    assert display.counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert display.open_[0, 1] == 1
    assert display.open_[2, 0] == 0
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": Y[:2]}, "one true and one predicted"),
        ({"classes": ["a", "b"]}, "'c' is none of the classes"),
        ({"candidates": np.ones((5, 2))}, r"shape \(5, 3\)"),
    ],
)
def test_confusion_refuses_what_does_not_fit(arguments, message):
    with pytest.raises(BagDataError, match=message):
        ConfusionDisplay.from_predictions(**({"y": Y, "predicted": FOUND} | arguments))


def test_displays_of_classes_are_drawn_from_a_model():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    bags = Bags(rng.normal(0, 0.5, (24, 2)) + 3.0 * np.array([[1, 0], [-1, 1], [-1, -1]])[y], np.arange(24))
    model = BagGP(evidence="class", learn=False, n_inducing=8, random_state=0).fit(bags, y)
    sets = [{int(k), int(k + 1) % 3} for k in y]
    assert ConfusionDisplay.from_estimator(model, bags, y, candidates=sets).counts.sum() == 24
    curve = ReliabilityDisplay.from_estimator(model, bags, y, label=1).curve
    assert curve.counts.sum() == 24
    labels = BagGP(learn=False, n_inducing=8, random_state=0).fit(bags, y > 0)
    with pytest.raises(BagDataError, match="was not fitted to classes"):
        ConfusionDisplay.from_estimator(labels, bags, y)
