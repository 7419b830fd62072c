"""Tables of predictions say what the model says, row by row of the user's table."""

import numpy as np
import pytest

from bagwise import Bags, MILGPProbit
from bagwise.io.predictions import bag_table, instance_table
from bagwise.models._base.card import Abilities


@pytest.fixture
def bags():
    """Rows of a table in which the bags lie mixed up; those of the first, third and fifth bag lie apart."""
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(20, 2)), rng.permutation(np.arange(20) % 5))
    return bags.with_features(bags.X + 4.0 * (bags.index % 2 == 0)[:, None])


def fitted(bags, y):
    return MILGPProbit(n_inducing=5, bias=3.0, random_state=0).fit(bags, y)


def test_instances_come_in_the_order_of_the_users_table(bags):
    model = fitted(bags, ["yes", "no", "yes", "no", "yes"])
    table = instance_table(model, bags)
    assert table["row"].tolist() == list(range(20))
    back = np.argsort(bags.rows)
    np.testing.assert_allclose(table["probability"], model.predict_instance_proba(bags)[back, 1])
    mean, variance = model.predict_latent(bags)
    np.testing.assert_allclose(table["mean"], mean[back])
    np.testing.assert_allclose(table["sd"], np.sqrt(variance)[back])
    assert table["bag"].tolist() == [bags.ids[bags.index[row]] for row in back]


def test_bags_come_with_the_class_that_is_predicted(bags):
    model = fitted(bags, ["yes", "no", "yes", "no", "yes"])
    table = bag_table(model, bags)
    assert table["prediction"].tolist() == model.predict(bags).tolist()
    assert set(table["prediction"]) == {"yes", "no"}
    np.testing.assert_allclose(table["probability"], model.predict_proba(bags)[:, 1])


def test_every_label_has_its_own_columns(bags):
    y = np.array([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]])
    model = fitted(bags, y)
    table = bag_table(model, bags, ("first", "second"))
    found = model.predict_proba(bags)
    np.testing.assert_allclose(table["probability_first"], found[:, 0])
    np.testing.assert_allclose(table["probability_second"], found[:, 1])


class Teller:
    """Says the same of every bag, for one label or for two."""

    of_classes, abilities = False, Abilities(fractions=True)

    def __init__(self, n_labels):
        self.n_labels = n_labels
        self.classes_ = np.array(["no", "yes"]) if n_labels == 1 else [np.array([0, 1])] * n_labels

    def predict_proba(self, bags):
        return np.tile([0.25, 0.75], (len(bags), 1))

    def predict_fraction(self, bags, level=0.9):
        parts = np.array([0.5, 0.25, 1.0])[:, None, None] * np.ones((len(bags), self.n_labels))
        return tuple(parts[..., 0] if self.n_labels == 1 else parts)


def test_expected_fractions_stand_in_the_table_of_bags():
    bags = Bags(np.ones((3, 1)), ["a", "b", "a"])
    table = bag_table(Teller(1), bags)
    expected = {"bag": "b", "size": 1, "probability": 0.75, "prediction": "yes", "fraction": 0.5}
    assert table.iloc[1].to_dict() == expected | {"fraction_low": 0.25, "fraction_high": 1.0}
    assert list(bag_table(Teller(2), bags, ["u", "v"]).columns[-3:]) == [
        "fraction_v",
        "fraction_low_v",
        "fraction_high_v",
    ]
