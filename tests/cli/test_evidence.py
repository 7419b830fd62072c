"""From the columns of a file to what a model is compared with."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from tests.problems import random_bags

from bagwise.cli.evidence import SavedModel, StatedColumns, fitted, truth
from bagwise.io.bag_data import BagData

TABLE = Path("cells.csv")


def saved(columns, **model):
    return SavedModel(SimpleNamespace(**({"of_classes": False, "kind_of_y": "label"} | model)), columns)


def data(y, labels):
    bags = random_bags(np.random.default_rng(0), n_bags=3, sizes=(5, 5))
    return BagData(bags, y, None, labels)


def test_a_fit_is_remembered_by_its_kind_and_columns():
    assert fitted(saved({"fraction": ["share"]}), TABLE) == StatedColumns("fraction", ("share",))
    assert fitted(saved({"count": ["lo", "hi"]}), TABLE) == StatedColumns("count", ("lo", "hi"))
    assert fitted(saved({"label": ["cancer"]}), TABLE) == StatedColumns("label", ("cancer",))
    assert fitted(saved({"candidates": ["a", "b"]}), TABLE) == StatedColumns("candidates", ("a", "b"))


def test_two_columns_are_the_ends_of_a_range():
    found = truth(
        saved({}), data(np.array([[0, 2], [1, 1], [3, 5]]), ("lo", "hi")), StatedColumns("count", ("lo", "hi")), TABLE
    )
    np.testing.assert_array_equal(found.first, [0, 1, 3])
    np.testing.assert_array_equal(found.second, [2, 1, 5])


def test_candidates_are_put_in_the_order_of_the_models_classes():
    model = saved({}, of_classes=True, classes_=np.array(["a", "b"]))
    given = pd.DataFrame({"b": [1, 0, 1], "a": [0, 1, 1]})
    found = truth(model, data(given, ("b", "a")), StatedColumns("candidates", ("b", "a")), TABLE)
    np.testing.assert_array_equal(found, [[0, 1], [1, 0], [1, 1]])
