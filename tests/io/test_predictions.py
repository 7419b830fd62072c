"""Tables of predictions say what the model says, row by row of the user's table."""

import numpy as np
import pytest

from bagwise import Bags, MILGPProbit
from bagwise.io.predictions import bag_table, instance_table


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
