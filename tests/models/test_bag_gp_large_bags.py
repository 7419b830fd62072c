"""BagGP on large bags, bags whose size speaks, and sparse tables: sizes, the choice of a kernel, files."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from tests.models.sized_bags import SMALL

from bagwise import BagGP, Bags


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    sizes = rng.integers(30, 120, 30)
    index = np.repeat(np.arange(30), sizes)
    X, y = rng.normal(size=(len(index), 3)), np.arange(30) % 2
    witnesses = np.flatnonzero(y[index] == 1)[::25]
    X[witnesses] += 4.0
    return Bags(X, index), y


def test_large_bags_go_to_one_site_per_bag_and_are_learned(large):
    bags, y = large
    model = BagGP(**SMALL).fit(bags, y)
    assert model.inference_ == "bag-ep"
    assert model.fallback_ is None
    assert roc_auc_score(y, model.predict_proba(bags)[:, 1]) > 0.95


def test_one_site_per_bag_works_in_single_precision(large):
    bags, y = large
    double, single = (BagGP(**SMALL, inference="bag-ep", dtype=dtype).fit(bags, y) for dtype in ("float64", "float32"))
    assert single.inference_ == "bag-ep"
    assert single.log_evidence_ == pytest.approx(double.log_evidence_, abs=0.3)
    np.testing.assert_allclose(single.predict_proba(bags), double.predict_proba(bags), atol=0.03)
