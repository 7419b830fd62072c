"""Every baseline keeps the contract of bagwise and of scikit-learn, and its file is read in a new process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator
from tests.baselines.cheap import cheap

from bagwise import Bags, baselines
from bagwise.models import discover_baselines
from bagwise.testing import CHECKS, check_files, check_kernel_variance, check_learns

BASELINES = discover_baselines()
# One process reads all files below, instead of one for each; no baseline has a latent variance.
ELSEWHERE = (check_files, check_kernel_variance)
# Any two bags of that problem have negatives near to each other, and Citation-kNN compares the nearest two instances.
KNOWN_TO_FAIL = {("citation-knn", check_learns)}


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in ELSEWHERE], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", BASELINES)
def test_contract(name, check):
    if (name, check) in KNOWN_TO_FAIL:
        with pytest.raises(AssertionError):
            check(cheap(name, BASELINES))
    else:
        check(cheap(name, BASELINES))


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name, model in BASELINES.items() if "label" in model.card.evidence])
@pytest.mark.filterwarnings("ignore::bagwise.BagDataWarning")
def test_scikit_learn_contract(name):
    results = check_estimator(cheap(name, BASELINES), on_skip=None)
    assert len(results) > 40
    assert not [result["check_name"] for result in results if result["status"] == "failed"]


def test_every_baseline_is_exported_and_has_a_card_of_its_own():
    assert {model.__name__ for model in BASELINES.values()} == set(baselines.__all__) - {"BagStatisticsSVM"}
    assert all(model.card.name == name for name, model in BASELINES.items())


RELOAD = """
import sys, numpy as np, bagwise
folder, names = sys.argv[1], sys.argv[2:]
bags = bagwise.Bags.load(folder + "/bags.npz")
for name in names:
    model = bagwise.load(f"{folder}/{name}.safetensors")
    assert model.card.name == name
    np.savez(f"{folder}/{name}.npz", bag=model.predict_proba(bags), instance=model.predict_instance_proba(bags))
"""


def evidence_for(model, bags):
    """What a baseline learns from: a label of every bag, fractions of positives, or two candidates of three."""
    if "candidates" in model.card.evidence:
        return (np.arange(3) != (np.arange(len(bags)) % 3)[:, None]).astype(int)
    return np.arange(len(bags)) % 2 / (2 if model.card.evidence == ("fraction",) else 1)


def test_files_of_all_baselines_answer_bit_for_bit_the_same_in_a_new_process(tmp_path):
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(36, 2)), np.arange(36) // 3, feature_names=["u", "v"])
    bags.save(tmp_path / "bags.npz")
    fitted = {}
    for name, model in BASELINES.items():
        fitted[name] = cheap(name, BASELINES).set_params(random_state=0).fit(bags, evidence_for(model, bags))
        fitted[name].save(tmp_path / f"{name}.safetensors")
    known = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", RELOAD, tmp_path, *fitted], check=True, env=known)
    for name, model in fitted.items():
        found = np.load(tmp_path / f"{name}.npz")
        assert np.array_equal(found["bag"], model.predict_proba(bags)), name
        assert np.array_equal(found["instance"], model.predict_instance_proba(bags)), name


def test_table_of_the_page_is_that_of_the_cards():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "baselines.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| (.+?) \| (.+?) \| (.+?) \|$", page, re.M)
    cards = [(model.__name__, model.card) for model in BASELINES.values()]
    assert sorted(rows) == sorted(
        (name, card.name, ", ".join(card.evidence), card.source, card.probabilities) for name, card in cards
    )
