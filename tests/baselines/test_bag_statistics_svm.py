import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from bagwise import BagDataError, Bags
from bagwise.baselines import BagStatisticsSVM
from bagwise.baselines.bag_statistics_svm import bag_statistics
from bagwise.datasets import make_bags

SMALL = {"C": (1.0, 10.0), "gamma": (0.01, 0.1), "cv": 3, "random_state": 0}


@pytest.fixture
def bags():
    return make_bags(60, (2, 6), positives=(1, 2), margin=0.5, random_state=0)[:2]


def test_statistics_are_mean_minimum_and_maximum():
    bags = Bags(np.array([[1.0, 5.0], [3.0, -1.0], [2.0, 2.0]]), ["a", "a", "b"])
    assert bag_statistics(bags).tolist() == [[2, 2, 1, -1, 3, 5], [2, 2, 2, 2, 2, 2]]
    sparse = bags.with_features(scipy.sparse.csr_matrix(bags.X))
    assert np.array_equal(bag_statistics(sparse), bag_statistics(bags))


def test_it_learns_what_statistics_show(bags):
    X, y = bags
    named = np.where(y == 1, "yes", "no")
    model = BagStatisticsSVM(**SMALL).fit(X[:40], named[:40])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X[40:], named[40:]) > 0.65
    assert np.array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
    assert clone(model).get_params() == model.get_params()


def test_linear_has_no_width_to_choose(bags):
    model = BagStatisticsSVM("linear", **SMALL).fit(*bags)
    assert set(model.search_.best_params_) == {"svc__C"}


def test_it_needs_two_classes(bags):
    X, y = bags
    with pytest.raises(BagDataError, match=r"two classes with at least two bags each, got 1 classes with \[60\]"):
        BagStatisticsSVM(**SMALL).fit(X, np.zeros_like(y))


def test_few_bags_of_a_class_mean_fewer_folds(bags):
    X, y = bags
    rare = np.zeros_like(y)
    rare[:2] = 1
    assert BagStatisticsSVM(**SMALL).fit(X, rare).search_.n_splits_ == 2
