"""Every discovered estimator keeps the contract of bagwise and of scikit-learn."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator
from tests.cheap import cheap

import bagwise
from bagwise import BagDataWarning
from bagwise.models import discover
from bagwise.testing import CHECKS, check_files, check_rule

MODELS = discover()
# One process reads the files of all (tests/test_new_process.py); the check itself is run by tests/test_skeletons.py.
CHECKED = [
    pytest.param(name, check, id=f"{name}-{check.__name__}")
    for name in MODELS
    for check in CHECKS
    if check is not check_files
]


@pytest.mark.parametrize(("name", "check"), CHECKED)
@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_every_model_keeps_the_contract(name, check):
    check(cheap(name, MODELS))


OF_ITS_OWN = (
    check_files,
    check_rule,
)  # the first starts a process: tests/models/test_bag_gp_classes.py saves and loads


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in OF_ITS_OWN], ids=lambda one: one.__name__)
def test_contract_of_the_flagship_with_candidates(check):
    check(bagwise.BagGP(evidence="candidates", learn=False, n_inducing=15))


# Models that take long, asked by `make statistical`; the others and the flagship every day, with few inducing inputs.
SLOW = ("bag-gp", "gpmil", "group-kernel-machine", "lm-vgpmil", "miplgp")


# A repeated bag has as much weight as one of weight 2 in the likelihood (tests/evidence/test_weights.py), but scaling
# and inducing inputs are chosen from the bags that are there, in their order and at random.
NOT_EQUIVALENT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "features do not depend on weights"
    for kind in ("dense", "sparse")
}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {"n_inducing": 15}) for name in MODELS if name not in SLOW),
        ("bag-gp", {"n_inducing": 15, "learn": False}),
        *(pytest.param(name, {}, marks=pytest.mark.statistical) for name in SLOW),
    ],
    ids=lambda part: part if isinstance(part, str) else "smaller" if part else "",
)
@pytest.mark.filterwarnings("ignore::bagwise.BagDataWarning")
@pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")
def test_every_model_keeps_the_contract_of_scikit_learn(name, settings):
    results = check_estimator(
        cheap(name, MODELS).set_params(**settings), on_skip=None, expected_failed_checks=NOT_EQUIVALENT
    )
    assert len(results) > 40
    assert not [result["check_name"] for result in results if result["status"] == "failed"]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_exported(name):
    assert getattr(bagwise, MODELS[name].__name__) is MODELS[name]


def test_warning_for_missing_labels_is_a_bag_data_warning():
    with pytest.warns(BagDataWarning, match="every bag label is missing"):
        bagwise.MILGPProbit().fit([np.zeros((2, 1)), np.ones((1, 1))], [np.nan, np.nan])
