"""The parts of a report: what counts as known, what is compared with what, what is announced."""

import numpy as np
from tests.problems import random_bags

from bagwise.report.answers import Answers, ClassAnswers, _as_labels

TABLE = np.array([[True, False, False], [True, True, False], [False, False, False], [False, False, True]])
PROBABILITY = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]])


def class_answers():
    bags = random_bags(np.random.default_rng(0), n_bags=4, sizes=(1, 1))
    said = ClassAnswers(PROBABILITY, TABLE, np.zeros((4, 4)), None)
    return Answers(bags, ("a", "b", "c"), True, PROBABILITY, _as_labels(TABLE), PROBABILITY, None, classes=said)


def test_a_hit_is_a_candidate_and_nothing_where_nothing_is_known():
    np.testing.assert_array_equal(class_answers().classes.hits(), [1, 0, np.nan, 0])


def test_of_several_candidates_only_the_other_classes_are_known():
    nan = np.nan
    np.testing.assert_array_equal(_as_labels(TABLE), [[1, 0, 0], [nan, nan, 0], [nan] * 3, [0, 0, 1]])


def test_measures_by_class_go_by_bags_of_one_candidate():
    nan = np.nan
    expected = [[1, 0, 0], [nan] * 3, [nan] * 3, [0, 0, 1]]
    np.testing.assert_array_equal(class_answers().measured_truth(), expected)
