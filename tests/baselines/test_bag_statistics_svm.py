import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import BagDataError, BagDataWarning, Bags
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


def test_constants_are_those_of_the_best_accuracy_on_bags_held_out(bags):
    X, y = bags
    model = BagStatisticsSVM(**SMALL).fit(X, y)
    machine = model.machines_[0].machine
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    rows, found = bag_statistics(X), {}
    for C in SMALL["C"]:
        for gamma in SMALL["gamma"]:
            solver = make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma))
            found[C, gamma] = np.mean([solver.fit(rows[a], y[a]).score(rows[b], y[b]) for a, b in folds.split(rows, y)])
    assert found[machine.C, machine.gamma] == max(found.values())
    solver = make_pipeline(StandardScaler(), SVC(C=machine.C, gamma=machine.gamma)).fit(rows, y)
    assert machine.scores(model._scaled(X)) == pytest.approx(solver.decision_function(rows))


def test_linear_has_no_width_to_choose(bags):
    assert BagStatisticsSVM("linear", **SMALL).fit(*bags).machines_[0].machine.gamma == 0.0


def test_single_bag_of_a_class_takes_the_middle_of_the_lists(bags):
    X, y = bags
    rare = np.zeros_like(y)
    rare[0] = 1
    with pytest.warns(BagDataWarning, match="single bag"):
        machine = BagStatisticsSVM(**SMALL).fit(X, rare).machines_[0].machine
    assert (machine.C, machine.gamma) == (10.0, 0.1)


@pytest.mark.parametrize("wrong", [{"C": 1.0}, {"gamma": ()}, {"C": (1.0, -1.0)}, {"kernel": "poly"}], ids=str)
def test_settings_of_the_search_are_checked(bags, wrong):
    with pytest.raises(BagDataError, match=next(iter(wrong))):
        BagStatisticsSVM(**wrong).fit(*bags)
