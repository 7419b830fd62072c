"""Rows that stay in a file, and features in a file, give the model that memory gives."""

import numpy as np
import pytest
from tests.equivalence.stored_problems import SMALL, fitted, problem

import bagwise
from bagwise import BagDataError, Bags
from bagwise.models import discover

SHORT = {"n_chains": 2, "n_samples": 30, "n_burn_in": 10}


# Every model that takes labels, in each of its inferences; test_every_model_is_here sees to it that none is missing.
SETTINGS = {
    "bag-gp": [
        {**SMALL, "learn": True, "size_effect": False},
        {**SMALL, "learn": True, "inference": "bag-ep", "size_effect": False},
        {**SMALL, "learn": False, "inference": "vi"},
        {**SMALL, "learn": False, "inference": "gibbs", **SHORT},
        {**SMALL, "learn": False, "standardize": False, "dtype": "float32", "inference": "ep"},
    ],
    "mil-gp-probit": [SMALL, {**SMALL, "inference": "gibbs", **SHORT}],
    "vgpmil": [SMALL, {**SMALL, "updates": "structured"}],
    "lm-vgpmil": [{**SMALL, "max_iter": 10}],
    "gpmil": [{**SMALL, "n_restarts": 1}, {**SMALL, "approximation": "softmax", "learn": False}],
    "group-kernel-machine": [{"evidence": "label", "n_centres": 8, "random_state": 0, **SHORT}],
    "miplgp": [{**SMALL, "solver": "sparse", "n_rounds": 8}],
}
CASES = [(name, settings) for name, listed in SETTINGS.items() for settings in listed]
QUIET = pytest.mark.filterwarnings(
    "ignore:the chains have not mixed:bagwise.ConvergenceWarning", "ignore::bagwise.BagDataWarning"
)


def same_answers(model, other, bags, rows, atol=1e-10):
    for ask in ("predict_proba", "predict_instance_proba"):
        np.testing.assert_allclose(getattr(other, ask)(rows), getattr(model, ask)(bags), rtol=0, atol=atol)
    for one, their in zip(model.predict_latent(bags), other.predict_latent(rows), strict=True):
        np.testing.assert_allclose(their, one, rtol=1e-10, atol=atol)


def test_every_model_is_here():
    assert set(SETTINGS) == set(discover())


@QUIET
@pytest.mark.parametrize(("name", "settings"), CASES, ids=[f"{name}-{n}" for n, (name, _) in enumerate(CASES)])
def test_streaming_equals_in_memory(name, settings, monkeypatch, tmp_path):
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", 40)
    bags, stored, y = problem()
    model = fitted(name, settings, bags, y)
    with bagwise.scale.within(memory=0, cache=tmp_path):
        other = fitted(name, settings, stored, y)
    atol = 1e-10 if settings.get("dtype") != "float32" else 1e-5
    same_answers(model, other, bags, stored, atol)
    assert list(tmp_path.iterdir()) == []


@QUIET
@pytest.mark.parametrize("name", ["bag-gp", "gpmil"])
def test_known_instances_of_stored_bags_count_as_in_memory(name):
    bags, stored, y = problem(known=True)
    y = np.where(np.arange(36) % 3 == 0, np.nan, y)
    settings = {**SMALL, "learn": False}
    same_answers(fitted(name, settings, bags, y), fitted(name, settings, stored, y), bags, stored)


@pytest.mark.parametrize(("memory", "times"), [(0, 2), (None, 1)])
def test_fit_of_stored_bags_reads_every_row_twice_or_once_if_there_is_room_and_predict_once(memory, times):
    _, stored, y = problem()
    with bagwise.scale.within(memory=memory):
        model = fitted("bag-gp", {**SMALL, "learn": False, "inference": "vi"}, stored, y)
    source = stored.X._source
    assert source.times.max() == times
    source.times[:] = 0
    model.predict_proba(stored)
    assert source.times.max() == 1


@QUIET
def test_witnesses_of_stored_bags_are_found_in_two_passes_over_the_file(monkeypatch):
    monkeypatch.setattr("bagwise.models._base.learned_nothing._FEWEST", 1000)  # which looks at some bags afterwards
    _, stored, y = problem()
    fitted("gpmil", {**SMALL, "learn": False}, stored, y)
    assert stored.X._source.times.max() == 2


@pytest.mark.parametrize("name", ["mil-gp-probit", "bag-gp"])
def test_file_that_changes_during_the_fit_is_a_clear_error(tmp_path, name):
    bags, _, y = problem()
    np.save(tmp_path / "X.npy", bags.X)
    stored = Bags.open(tmp_path / "X.npy", bags.index)
    model = fitted(name, SMALL, stored, y)
    np.save(tmp_path / "X.npy", bags.X[:-1])
    with pytest.raises(BagDataError, match="has changed since it was opened"):
        model.predict_proba(stored)
