"""Files of all models, baselines and settings, read in one new process instead of one for each."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.cheap import cheap
from tests.saved_models import CASES, label, new_bags
from tests.saved_models import fitted as fitted_case

from bagwise import Bags, MILGPProbit
from bagwise.models import discover_estimators

ESTIMATORS = discover_estimators()
RELOAD = """
import pathlib, sys, numpy as np, bagwise
for folder in map(pathlib.Path, sys.argv[1:]):
    bags = bagwise.Bags.load(folder / "bags.npz")
    for path in folder.glob("*.safetensors"):
        model = bagwise.load(path)
        latent = model.predict_latent(bags) if model.abilities.latent else ()
        answers = {"bag": model.predict_proba(bags), "instance": model.predict_instance_proba(bags)}
        np.savez(path.with_suffix(".npz"), name=model.card.name, latent=latent, **answers)
"""


def evidence_for(model, bags):
    """What an estimator learns from: a label of every bag, fractions of positives, or two candidates of three."""
    if "candidates" in model.card.evidence and "label" not in model.card.evidence:
        return (np.arange(3) != (np.arange(len(bags)) % 3)[:, None]).astype(int)
    return np.arange(len(bags)) % 2 / (2 if model.card.evidence == ("fraction",) else 1)


def estimators():
    """Every estimator, fitted to the same bags."""
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(36, 2)), np.arange(36) // 3, feature_names=["u", "v"])
    made = {name: cheap(name, ESTIMATORS).set_params(random_state=0) for name in ESTIMATORS}
    return bags, {name: model.fit(bags, evidence_for(model, bags)) for name, model in made.items()}


def settings():
    """One model in many settings."""
    plain = [name for name in CASES if CASES[name][1] is None]
    models = {name: fitted_case(name, new_bags())[0] for name in plain}
    chains = MILGPProbit(inference="gibbs", n_chains=2, n_samples=40, n_burn_in=20, n_inducing=12, random_state=0)
    return new_bags(), models | {"chains": chains.fit(new_bags(), label(new_bags()))}


@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_files_of_all_estimators_and_settings_answer_bit_for_bit_the_same_in_a_new_process(tmp_path):
    problems = {"estimators": estimators(), "settings": settings()}
    for folder, (bags, models) in problems.items():
        (tmp_path / folder).mkdir()
        bags.save(tmp_path / folder / "bags.npz")
        for name, model in models.items():
            model.save(tmp_path / folder / f"{name}.safetensors")
    known = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    folders = [tmp_path / folder for folder in problems]
    subprocess.run([sys.executable, "-W", "ignore", "-c", RELOAD, *folders], check=True, env=known)
    for folder, (bags, models) in problems.items():
        for name, model in models.items():
            found = np.load(tmp_path / folder / f"{name}.npz")
            assert found["name"] == model.card.name
            assert np.array_equal(found["bag"], model.predict_proba(bags)), name
            assert np.array_equal(found["instance"], model.predict_instance_proba(bags)), name
            if model.abilities.latent:
                assert np.array_equal(found["latent"], np.stack(model.predict_latent(bags))), name
