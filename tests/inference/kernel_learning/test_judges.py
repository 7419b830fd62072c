"""Which judge says how good a kernel is."""

import numpy as np
import pytest
from tests.inference.kernel_learning.learning_problems import labels_of, settings, start

from bagwise.datasets import make_bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.kernel_learning.by_bags import ByBags
from bagwise.inference.kernel_learning.by_classes import ByClasses
from bagwise.inference.kernel_learning.by_messages import ByMessages
from bagwise.inference.kernel_learning.judges import LearningSet, judge_of


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(20, (2, 6), 2, random_state=3)
    return bags, y


def judge(bags, evidence, **changes):
    features = start(bags)
    return judge_of(LearningSet(features, features.kernel, features.inducing, bags, evidence), settings(**changes))


@pytest.mark.parametrize(("by_bags", "kind"), [(True, ByBags), (False, ByMessages)])
def test_labels_are_judged_with_one_site_per_bag_or_by_messages(problem, by_bags, kind):
    bags, y = problem
    assert isinstance(judge(bags, labels_of(y, bags), by_bags=by_bags), kind)


def test_classes_have_a_judge_of_their_own(problem):
    bags, y = problem
    table = np.eye(3, dtype=bool)[np.asarray(y, dtype=int)]
    assert isinstance(judge(bags, ClassEvidence(table, bags.offsets)), ByClasses)


def test_moments_judge_where_some_bags_count_for_little(problem):
    bags, y = problem
    light = CountEvidence(np.asarray(y, dtype=float)[:, None], bags.sizes, weight=np.full(len(bags), 0.3))
    assert not isinstance(judge(bags, light), ByBags)
    assert isinstance(judge(bags, light)(), float)


def test_moments_judge_where_they_are_asked_for_though_messages_settle(problem):
    bags, y = problem
    evidence = labels_of(y, bags)
    assert isinstance(judge(bags, evidence, by_bags=False, pinned=True), ByMessages)
    assert not isinstance(judge(bags, evidence, by_bags=False, pinned=True, by_moments=True), ByMessages)
