"""Files of all models and baselines, read in one new process instead of one for each."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.cheap import cheap

from bagwise import Bags
from bagwise.models import discover_estimators

ESTIMATORS = discover_estimators()
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
    """What an estimator learns from: a label of every bag, fractions of positives, or two candidates of three."""
    if "candidates" in model.card.evidence and "label" not in model.card.evidence:
        return (np.arange(3) != (np.arange(len(bags)) % 3)[:, None]).astype(int)
    return np.arange(len(bags)) % 2 / (2 if model.card.evidence == ("fraction",) else 1)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_files_of_all_estimators_answer_bit_for_bit_the_same_in_a_new_process(tmp_path):
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(36, 2)), np.arange(36) // 3, feature_names=["u", "v"])
    bags.save(tmp_path / "bags.npz")
    fitted = {}
    for name, model in ESTIMATORS.items():
        fitted[name] = cheap(name, ESTIMATORS).set_params(random_state=0).fit(bags, evidence_for(model, bags))
        fitted[name].save(tmp_path / f"{name}.safetensors")
    known = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", RELOAD, tmp_path, *fitted], check=True, env=known)
    for name, model in fitted.items():
        found = np.load(tmp_path / f"{name}.npz")
        assert np.array_equal(found["bag"], model.predict_proba(bags)), name
        assert np.array_equal(found["instance"], model.predict_instance_proba(bags)), name
