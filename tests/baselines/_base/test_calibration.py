import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from bagwise import BagDataWarning
from bagwise.baselines import DD, EMDD, NSK, SIL
from bagwise.baselines._base.calibration import sigmoid
from bagwise.datasets import make_bags


def test_sigmoid_is_a_logistic_regression_of_smoothed_targets():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200) * 3 + 1
    y = (rng.random(200) < expit(1.5 * scores - 2)).astype(float)
    n1, n0 = y.sum(), (1 - y).sum()
    share = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    twice, weight = np.concatenate([scores, scores])[:, None], np.concatenate([share, 1 - share])
    reference = LogisticRegression(C=1e10, tol=1e-10).fit(twice, np.repeat([1, 0], 200), sample_weight=weight)
    slope, intercept = sigmoid(scores, y, "sigmoid")
    assert slope == pytest.approx(reference.coef_[0, 0], rel=1e-3)
    assert intercept == pytest.approx(reference.intercept_[0], rel=1e-3)


def test_slope_alone_keeps_the_decision_of_the_method():
    scores, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 0.0, 1.0, 1.0])
    assert sigmoid(scores, y, "slope")[1] == 0.0
    bags, y, _ = make_bags(40, (2, 5), random_state=0)
    own, moved = (SIL(calibration=option, random_state=0).fit(bags, y) for option in ("slope", "sigmoid"))
    raw = own.machines_[0].machine.scores(own._scaled(bags))
    assert np.array_equal(own.predict(bags) == 1, raw > 0)
    assert not np.array_equal(moved.predict(bags), own.predict(bags))


def test_order_of_scores_is_kept_even_where_they_mislead():
    slope, _ = sigmoid(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 1.0, 0.0, 0.0]), "sigmoid")
    assert slope > 0


@pytest.mark.parametrize("option", ["sigmoid", "slope"])
@pytest.mark.parametrize("level", [0.0, 0.83255461, -7e300, np.inf])
def test_scores_that_are_all_alike_give_the_base_rate(option, level):
    y = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    scores = np.full(5, level) * (1 + 1e-16 * np.arange(5))
    assert sigmoid(scores, y, option) == (0.0, pytest.approx(np.log(2 / 5)))


@pytest.mark.parametrize("method", [DD, EMDD])
def test_rows_that_are_all_alike_give_the_base_rate(method):
    X, y = [np.full((3, 2), 3.0) for _ in range(18)], np.arange(18) % 3 == 0
    model = method(n_starts=2, random_state=0).fit(X, y)
    assert model.predict_proba([*X, np.zeros((1, 2))])[:, 1] == pytest.approx(7 / 20)


@pytest.mark.parametrize("shift", [1e5, -1e5])
@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_calibration_knows_no_unit_and_no_zero_of_the_scores(shift, unit):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=40)
    y = (rng.random(40) < expit(2 * scores)).astype(float)
    slope, intercept = sigmoid(scores, y, "sigmoid")
    other_slope, other_intercept = sigmoid(unit * (scores + shift), y, "sigmoid")
    odds = other_slope * (unit * (scores + shift)) + other_intercept
    assert odds == pytest.approx(slope * scores + intercept, rel=1e-4, abs=1e-4)


def test_held_out_probabilities_are_less_certain_than_those_of_the_training_bags():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(3, 20)) for _ in range(24)], np.arange(24) % 2  # nothing to learn
    model = NSK(C=1e3, random_state=0).fit(X, y)
    raw = model.machines_[0].machine.scores(model._scaled(model._check_bags(X)))
    assert ((raw > 0) == y).all()  # learned by heart
    assert np.abs(model.predict_proba(X)[:, 1] - 0.5).max() < 0.2


def test_score_far_beyond_all_others_is_not_taken_for_certainty():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    model = SIL("linear", random_state=0).fit([rng.normal(2 * label, 1, size=(3, 2)) for label in y], y)
    near, far = model.predict_proba([[[9.0, 9.0]], [[1e6, 1e6]]])[:, 1]
    assert near < far < 1 - 0.5 / 31**2


def test_single_bag_of_a_class_is_calibrated_with_a_warning():
    with pytest.warns(BagDataWarning, match="one of the classes has a single bag"):
        SIL().fit([np.zeros((2, 1)), np.ones((2, 1)), np.ones((1, 1))], [0, 1, 1])


def test_calibration_never_holds_a_bag_out_beside_another_of_its_group():
    bags, y, _ = make_bags(24, 3, random_state=0)
    grouped = bags.with_group(np.arange(24) // 3)
    seen = []

    class Watched(SIL):
        def _learn(self, bags, y, random, weight):
            seen.append(set(bags.group))
            return super()._learn(bags, y, random, weight)

    Watched(random_state=0).fit(grouped, y)
    whole, *folds = seen
    assert len(whole) == 8
    assert sum(len(whole - fold) for fold in folds) == 8  # every group is left out once, as a whole
    with pytest.warns(BagDataWarning, match="single bag"):
        SIL(random_state=0).fit(bags.with_group(np.zeros(24)), y)
