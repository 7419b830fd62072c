"""Candidate sets in all their forms, and what MIPLGP refuses."""

import numpy as np
import pandas as pd
import pytest
import torch

from bagwise import MIPLGP, Bags
from bagwise.evidence.candidates import NONE_OF_THEM, candidate_sets, read_candidates
from bagwise.exceptions import BagDataError
from bagwise.inference.candidates import memory
from bagwise.models import miplgp

TABLE = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]])
NAMES = np.array(["ant", "bee", "cat"])
SETS = [set(NAMES[row == 1]) for row in TABLE]
IDS = ["w", "x", "y", "z"]


@pytest.fixture
def bags():
    rng = np.random.default_rng(0)
    return Bags(rng.normal(size=(8, 2)), np.repeat(IDS, 2))


def quick(**settings):
    return MIPLGP(**({"n_rounds": 2, "learn": False, "random_state": 0} | settings))


# ---------------------------------------------------------------- forms of y


@pytest.mark.parametrize(
    "y",
    [TABLE, TABLE.astype(bool), TABLE.astype(float), TABLE.tolist(), torch.from_numpy(TABLE)],
    ids=["whole", "bool", "float", "lists", "tensor"],
)
def test_a_table_numbers_its_classes(y, bags):
    sets = read_candidates(y, bags, keyed=True)
    np.testing.assert_array_equal(sets.table, TABLE == 1)
    np.testing.assert_array_equal(sets.classes, [0, 1, 2])
    assert sets.observed.all()


@pytest.mark.parametrize("kind", [set, frozenset, list, tuple, sorted])
def test_sets_of_names_are_a_table_of_sorted_classes(kind, bags):
    sets = read_candidates([kind(names) for names in SETS], bags, keyed=True)
    np.testing.assert_array_equal(sets.table, TABLE == 1)
    np.testing.assert_array_equal(sets.classes, NAMES)


def test_sets_of_numbers_are_a_table_of_sorted_classes(bags):
    sets = read_candidates([{10, 20}, {20, 30}, {10}, {30}], bags, keyed=True)
    np.testing.assert_array_equal(sets.table, TABLE == 1)
    np.testing.assert_array_equal(sets.classes, [10, 20, 30])


@pytest.mark.parametrize("y", [["b", "a", "b", "c"], np.array([5, 3, 5, 7])], ids=["names", "numbers"])
def test_one_class_per_bag_is_a_set_of_one(y, bags):
    sets = read_candidates(y, bags, keyed=True)
    np.testing.assert_array_equal(sets.table, np.eye(3, dtype=bool)[[1, 0, 1, 2]])
    np.testing.assert_array_equal(sets.classes, sorted(set(np.asarray(y).tolist())))


def test_a_frame_names_its_classes_and_is_read_by_bag_id(bags):
    frame = pd.DataFrame(TABLE, index=IDS, columns=NAMES).iloc[[2, 0, 3, 1]]
    sets = read_candidates(frame, bags, keyed=True)
    np.testing.assert_array_equal(sets.table, TABLE == 1)
    np.testing.assert_array_equal(sets.classes, NAMES)


@pytest.mark.parametrize("values", [SETS, list(TABLE), TABLE.tolist()], ids=["sets", "rows", "lists"])
def test_a_dict_is_read_by_bag_id(values, bags):
    y = dict(zip(reversed(IDS), reversed(values), strict=True))
    np.testing.assert_array_equal(read_candidates(y, bags, keyed=True).table, TABLE == 1)


def test_missing_rows_say_nothing(bags):
    gap = TABLE.astype(float)
    gap[1] = np.nan
    listed = [SETS[0], None, SETS[2], SETS[3]]
    for y in (gap, listed, dict(zip(IDS, listed, strict=True)), pd.DataFrame(gap, IDS, NAMES)):
        sets = read_candidates(y, bags, keyed=True)
        assert sets.observed.tolist() == [True, False, True, True]
        np.testing.assert_array_equal(sets.table, (TABLE == 1) & sets.observed[:, None])


def test_every_form_gives_the_same_model(bags):
    frame = pd.DataFrame(TABLE, index=IDS, columns=NAMES)
    models = [quick().fit(bags, y) for y in (frame, SETS, dict(zip(IDS, SETS, strict=True)))]
    for model in models:
        assert model.classes_.tolist() == NAMES.tolist()
        assert model.instance_classes_.tolist() == [*NAMES, NONE_OF_THEM]
        np.testing.assert_array_equal(model.predict_instance_proba(bags), models[0].predict_instance_proba(bags))
    numbered = quick().fit(bags, TABLE)
    np.testing.assert_array_equal(numbered.predict_proba(bags), models[0].predict_proba(bags))
    assert numbered.instance_classes_.tolist() == [0, 1, 2, 3]


def test_a_bag_that_says_nothing_changes_no_posterior(bags):
    """With a fixed kernel and no scaling, learning without it is learning from the others."""
    without = quick(solver="exact", standardize=False, lengthscale=1.0)
    y = [*SETS[:3], None]
    some = without.fit(bags, y).predict_proba(bags)
    others = quick(solver="exact", standardize=False, lengthscale=1.0).fit(bags[:3], SETS[:3]).predict_proba(bags)
    np.testing.assert_allclose(some, others, atol=1e-10)


def test_score_counts_predictions_among_the_candidates(bags):
    model = quick().fit(bags, SETS)
    found = model.predict(bags)
    assert model.score(bags, found) == 1.0
    hits = [name in names for name, names in zip(found, SETS, strict=True)]
    assert model.score(bags, SETS) == np.mean(hits)
    assert model.score(bags, [*SETS[:3], None]) == np.mean(hits[:3])  # a bag that says nothing does not count
    with pytest.raises(BagDataError, match=r"'dog'.*fitted with the classes"):
        model.score(bags, [{"dog"}, *SETS[1:]])


def test_a_fitted_model_wants_the_columns_it_was_fitted_with(bags):
    with pytest.raises(BagDataError, match="2 columns; the model was fitted with 3 classes"):
        candidate_sets(TABLE[:, :2], bags, keyed=True, classes=NAMES)


# ---------------------------------------------------------------- bad input


def changed(row, column, value):
    table = TABLE.astype(float)
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (changed(2, 0, 0), "bag 'y' has no candidate class"),
        ([SETS[0], set(), *SETS[2:]], "bag 'x' has no candidate class"),
        (np.column_stack([TABLE, np.zeros(4)]), "class '3' is never a candidate"),
        (pd.DataFrame(TABLE * [1, 0, 1], IDS, NAMES).assign(ant=1), "class 'bee' is never a candidate"),
        (np.ones((4, 3)), "3 classes.*candidate of every bag.*nothing can be learned"),
        ([{"ant", "bee"}] * 4, "candidate of every bag"),
        (["ant"] * 4, "1 class: .*candidate of every bag"),
        ([{"ant", NONE_OF_THEM}, *SETS[1:]], f"a class is called '{NONE_OF_THEM}'.*rename it"),
        (changed(1, 2, 0.5), r"bag 'x', column 2 holds .*0\.5"),
        (changed(1, 2, np.nan), "bag 'x', column 2 holds .*nan"),
        (np.full((4, 3), np.nan), "no bag has a candidate class"),
        ([None] * 4, "no bag has a candidate class"),
        (TABLE[:3], "y has 3 entries, but there are 4 bags"),
        (SETS[:3], "y has 3 entries, but there are 4 bags"),
        ([{"ant", None}, *SETS[1:]], "bag 'w': a candidate is missing"),
        ([{"ant", 3}, *SETS[1:]], "mix text and numbers"),
        (np.array([["a", "b"]] * 4), "0 and 1 only.*found text"),
        (np.ones((4, 2, 2)), r"shape \(4, 2, 2\)"),
        (None, "y to be passed"),
        ({"w": SETS[0], "x": SETS[1], "q": SETS[2], "z": SETS[3]}, "'y'"),
    ],
)
def test_useless_candidates_are_refused(y, message, bags):
    with pytest.raises(BagDataError, match=message):
        quick().fit(bags, y)


@pytest.mark.parametrize(("solver", "sizes"), [("exact", "8 instances × 4 classes"), ("sparse", "4 matrices of 9 × 9")])
def test_what_does_not_fit_into_memory_is_refused_with_its_sizes(solver, sizes, bags, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 100.0)
    with pytest.raises(
        BagDataError, match=rf"solver='{solver}' needs about .* GB for {sizes}.*there are 0\.0 GB; take"
    ):
        quick(solver=solver).fit(bags, TABLE)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1e9)
    quick(solver=solver).fit(bags, TABLE)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("solver", miplgp.SOLVERS)
def test_cuda_without_a_device_is_a_clear_error(solver, bags):
    with pytest.raises(BagDataError, match="device='cuda': this machine has no usable CUDA device"):
        quick(device="cuda", solver=solver).fit(bags, TABLE)


@pytest.mark.parametrize(
    "settings", [{"solver": "dense"}, {"disambiguation": "hard"}, {"approximation": "dtc"}, {"alpha_eps": 0.0}], ids=str
)
def test_settings_are_checked_by_name(settings, bags):
    with pytest.raises(BagDataError, match=next(iter(settings))):
        quick(**settings).fit(bags, TABLE)
