"""Every baseline keeps the contract of bagwise and of scikit-learn; tests/test_new_process.py reads their files."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator
from tests.cheap import cheap

from bagwise import BagDataError, Bags, baselines
from bagwise.models import discover_baselines
from bagwise.testing import CHECKS, check_files, check_kernel_variance, check_learns

BASELINES = discover_baselines()
# One process reads the files of all (tests/test_new_process.py); no baseline has a latent variance.
ELSEWHERE = (check_files, check_kernel_variance)
# They answer for groups of people, from totals, and not for bags (tests/baselines/totals).
OF_TOTALS = {"Goodman", "King2x2", "RateBounds"}
# Any two bags of that problem have negatives near to each other, and Citation-kNN compares the nearest two instances.
KNOWN_TO_FAIL = {("citation-knn", check_learns)}


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in ELSEWHERE], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_keeps_the_contract(name, check):
    if (name, check) in KNOWN_TO_FAIL:
        with pytest.raises(AssertionError):
            check(cheap(name, BASELINES))
    else:
        check(cheap(name, BASELINES))


# A weight multiplies the loss of a bag; scaling, folds of the calibration and starts are those of the bags as they are.
NOT_EQUIVALENT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "scaling and calibration do not depend on weights"
    for kind in ("dense", "sparse")
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name, model in BASELINES.items() if "label" in model.card.evidence])
@pytest.mark.filterwarnings("ignore::bagwise.BagDataWarning")
def test_every_baseline_keeps_the_contract_of_scikit_learn(name):
    results = check_estimator(cheap(name, BASELINES), on_skip=None, expected_failed_checks=NOT_EQUIVALENT)
    assert len(results) > 40
    assert not [result["check_name"] for result in results if result["status"] == "failed"]


@pytest.mark.parametrize("name", ["sil", "inv-cal", "pl-knn"])
def test_rows_that_stand_for_many_are_refused(name):
    bags = Bags(np.zeros((4, 1)), [0, 0, 1, 1], weight=[3, 1, 2, 2])
    with pytest.raises(BagDataError, match="takes no weights"):
        cheap(name, BASELINES).fit(bags, [0, 1])


def test_every_baseline_is_exported_and_has_a_card_of_its_own():
    assert {model.__name__ for model in BASELINES.values()} == set(baselines.__all__) - OF_TOTALS
    assert all(model.card.name == name for name, model in BASELINES.items())


def test_table_of_the_page_is_that_of_the_cards():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "baselines.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| (.+?) \| (.+?) \| (.+?) \|$", page, re.M)
    cards = [(model.__name__, model.card) for model in BASELINES.values()]
    assert sorted(rows) == sorted(
        (name, card.name, ", ".join(card.evidence), card.source, card.probabilities) for name, card in cards
    )
