"""What cannot be compared is refused."""

import numpy as np
import pytest
from tests.compare.comparison import NAMES

from bagwise.compare import compare_models
from bagwise.exceptions import BagDataError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ["bag-gp", "bag-gp"]}, "named twice"),
        ({"models": ["fox"]}, "--models fox: there is no such model; there are bag-gp"),
        ({"models": ["miplgp"], "evidence": "fraction"}, "miplgp takes candidates, label, not evidence of the kind"),
        ({"models": ["bag-gp"], "settings": {"bag-gp": {"foxes": 1}}}, "bag-gp has no setting 'foxes'"),
        ({"models": ["bag-gp"], "settings": {"gpmil": {}}}, "settings for gpmil: it is not among the models"),
        ({"models": {"mine": object()}}, "object is no model or baseline of bagwise"),
        ({"metric": "bag beauty"}, "metric='bag beauty'"),
        ({"folds": 1}, "folds"),
        ({"y": np.full(36, np.nan)}, "nothing is stated about any bag"),
    ],
)
@pytest.mark.filterwarnings("ignore:every bag label is missing")
def test_what_cannot_be_compared_is_refused(problem, changes, message):
    bags, y, _ = problem
    with pytest.raises(BagDataError, match=message):
        compare_models(bags, changes.pop("y", y), changes.pop("models", NAMES), **changes)
