"""Sets of bags that took no part in a fit: who is asked about whom, and how kernels compare."""

import dataclasses
import math

import numpy as np
import pytest
from tests.inference.test_class_start import planted
from tests.problems import features_of

from bagwise import Bags
from bagwise.bag_models.rules import OneOfTheClasses
from bagwise.evidence.classes import ClassEvidence
from bagwise.exceptions import NumericalError
from bagwise.inference import class_left_out
from bagwise.inference.class_left_out import LeftOut, StatedBags, halves, log_of_sets
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.predict.bag_classes import bag_class_probability
from bagwise.predict.points import Fitted

SOME, MANY = 40, 120


def stated(n_bags=SOME):
    """Some bags of three classes, with their sets of two."""
    bags, evidence, _ = planted((0.4, 0.3, 0.3), 1, 4.0, seed=0)
    return StatedBags(bags, evidence).some(np.arange(n_bags))


def features_for(bags, lengthscale):
    return features_of(bags, bias=5.0, n_inducing=60, lengthscale=lengthscale)


def numbered(sizes, table):
    """Bags whose single feature is their number."""
    index = np.repeat(np.arange(len(sizes)), sizes)
    return StatedBags(
        Bags(index[:, None].astype(float), index), ClassEvidence(table, np.concatenate([[0], np.cumsum(sizes)]))
    )


def members(some):
    return sorted(set(some.bags.X[:, 0].astype(int).tolist()))


def test_every_bag_is_asked_once_by_a_fit_that_has_not_seen_it():
    table = np.eye(4, dtype=bool)[np.arange(11) % 3]
    table[4] = False  # says nothing
    (fitted, asked), (fitted_too, asked_too) = halves(numbered(np.full(11, 2), table), 0)
    assert members(fitted) == members(asked_too)
    assert members(asked) == members(fitted_too)
    assert sorted(members(fitted) + members(asked)) == [number for number in range(11) if number != 4]
    for some in (fitted, asked):
        assert np.array_equal(some.evidence.table, table[members(some)])


@pytest.mark.parametrize("seed", range(3))
def test_equal_sets_are_dealt_to_both_halves(seed):
    table = np.eye(4, dtype=bool)[[0] * 20 + [1] * 6 + [2] * 2]
    for fitted, _ in halves(numbered(np.ones(28, dtype=int), table), seed):
        assert fitted.evidence.table.sum(0).tolist() == [10, 3, 1, 0]


def test_a_single_bag_has_nobody_to_be_asked_by():
    alone = numbered(np.array([3]), np.eye(2, dtype=bool)[[0]])
    assert halves(alone, 0) == []
    assert len(LeftOut(features_of(alone.bags, n_inducing=None), alone, 0).given_guesses) == 0


def test_of_very_many_rows_some_bags_are_asked_and_two_at_least(monkeypatch):
    table = np.eye(3, dtype=bool)[np.arange(30) % 2]
    for most, expected in ((100, 10), (3, 2)):
        monkeypatch.setattr(class_left_out, "MOST_ROWS", most)
        (fitted, asked), _ = halves(numbered(np.full(30, 10), table), 0)
        assert len(fitted.bags) + len(asked.bags) == expected


def test_no_bag_that_is_asked_tells_anything_about_another_one():
    """Asked alone or all together, sets are as probable."""
    some = stated()
    features = features_for(some.bags, 2.0)
    (fitted, asked), _ = halves(some, 0)
    together = class_left_out._Half(features, fitted, asked, 0).given_guesses()
    alone = [
        class_left_out._Half(features, fitted, asked.some(np.array([number])), 0).given_guesses() for number in range(3)
    ]
    first = class_left_out._Half(features, fitted, asked.some(np.arange(3)), 0).given_guesses()
    np.testing.assert_allclose(first, np.concatenate(alone), atol=1e-9)
    np.testing.assert_allclose(together[:3], first, atol=1e-9)


def fitted_to(some):
    features = features_for(some.bags, 2.0)
    half = class_left_out._Half(features, some, some, 0)
    half.given_guesses()
    return Fitted(features, half._engine.posterior(), OneOfTheClasses(none=True), 0)


@pytest.mark.parametrize("none", [False, True])
def test_probability_of_a_set_is_that_of_its_classes_among_all_that_there_are(none):
    """``None of them`` is one of these where a set holds it."""
    some = stated()
    fitted, table = fitted_to(some), some.evidence.table.copy()
    table[0, -1] = none
    everyone = np.ones_like(table)
    everyone[:, -1] = none
    p = bag_class_probability(fitted, some.bags, everyone)
    expected = [math.log(sum(p[bag, k] for k in np.flatnonzero(table[bag]))) for bag in range(SOME)]
    found = log_of_sets(fitted, some.bags, ClassEvidence(table, some.evidence.offsets))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_no_single_bag_decides(monkeypatch):
    some = stated()
    monkeypatch.setattr(class_left_out, "bag_class_probability", lambda fitted, bags, table: np.where(table, 0.0, 1.0))
    assert log_of_sets(fitted_to(some), *some) == pytest.approx(math.log(class_left_out._LEAST))


def test_a_kernel_that_remembers_every_row_is_refuted():
    """What it has learned of some bags says nothing of others: less than that all classes are alike."""
    some = stated(MANY)
    right, forgetful = (LeftOut(features_for(some.bags, lengthscale), some, 0) for lengthscale in (2.0, 0.05))
    assert right.given_guesses.sum() > MANY * math.log(2 / 3) + 5.0 > forgetful.given_guesses.sum() + 5.0
    assert right.given_sets.sum() > forgetful.given_sets.sum() + 5.0
    assert right.refutes(forgetful, 3.0)
    assert not forgetful.refutes(right, 0.0)


def said(*logs):
    """What bags say, without asking them."""
    asked = LeftOut(None, None, 0)
    asked.__dict__["given_guesses"] = np.array(logs)
    return asked


NOTHING = (math.nan,)


@pytest.mark.parametrize(
    ("one", "other", "errors", "refuted"),
    [
        ((-1.0,) * 20, (-1.1,) * 20, 3.0, True),
        ((-1.0,) * 19, (-1.1,) * 19, 3.0, False),  # too few to say
        ((-1.0,) * 20, (-1.0,) * 20, 0.0, False),
        ((-1.0,) * 20, (-0.9,) * 20, 0.0, False),
        ((-1.0,) * 20, (-3.0, *(-1.0,) * 19), 3.0, False),  # one bag alone
        ((-1.0,) * 20, (-3.0, *(-1.0,) * 19), 0.0, True),
        ((-1.0,) * 9, NOTHING, 3.0, True),
        (NOTHING, (-1.0,) * 9, 0.0, False),
        (NOTHING, NOTHING, 0.0, False),
        ((), (), 0.0, False),
    ],
)
def test_features_are_refuted_where_bags_speak_against_them_clearly(one, other, errors, refuted):
    assert said(*one).refutes(said(*other), errors) == refuted


def test_a_gain_must_exceed_so_many_standard_errors_of_the_sum():
    gain = np.tile([0.0, 1.0], 20)  # a sum of 20, with a standard error of 3.2
    one, other = said(*np.zeros(40)), said(*-gain)
    assert one.refutes(other, 6.2)
    assert not one.refutes(other, 6.3)


def test_answer_that_makes_sets_more_probable_is_preferred():
    some = stated()
    asked = LeftOut(features_for(some.bags, 2.0), some, 0)
    for guesses, sets in ((-3.0, -2.0), (-2.0, -3.0), (-2.0, math.nan)):
        asked.__dict__.update(given_guesses=np.array([guesses]), given_sets=np.array([sets]))
        assert asked.prefers_sets == (sets > guesses)


def test_where_no_answer_can_be_found_nothing_is_probable(monkeypatch):
    def fails(self):
        raise NumericalError("no precision")

    some = stated()
    monkeypatch.setattr(ClassPropagation, "step", fails)
    asked = LeftOut(features_for(some.bags, 2.0), some, 0)
    assert np.isnan(asked.given_guesses).all()
    assert np.isnan(asked.given_sets).all()
    assert not asked.prefers_sets


def test_who_interrupts_the_asking_is_heard(monkeypatch):
    some = stated()
    iterate = class_left_out.iterate
    monkeypatch.setattr(
        class_left_out, "iterate", lambda *given, **how: dataclasses.replace(iterate(*given, **how), interrupted=True)
    )
    with pytest.raises(KeyboardInterrupt):
        _ = LeftOut(features_for(some.bags, 2.0), some, 0).given_guesses
