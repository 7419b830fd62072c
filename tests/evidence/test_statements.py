"""What bags say: the statements, how they are cut and joined, and the potentials that follow from them."""

import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import beta
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils import _safe_indexing
from tests.problems import random_bags

from bagwise import BagDataError, BagGP
from bagwise.evidence.statements import (
    COUNT,
    FRACTION,
    LABEL,
    NONE,
    Evidence,
    count,
    fraction,
    guessed_fractions,
    label,
    log_beta_density,
    log_potentials,
)

NAN = np.nan


def potential(evidence, n, **noise):
    """ψ(k), k = 0 … n, of a single statement."""
    return np.exp(log_potentials(evidence, np.array([n]), **noise))


# ---------------------------------------------------------------- potentials


def test_labels_ask_for_none_or_at_least_one():
    np.testing.assert_array_equal(potential(label(0), 3), [1, 0, 0, 0])
    np.testing.assert_array_equal(potential(label(1), 3), [0, 1, 1, 1])


def test_a_noisy_label_is_wrong_with_the_given_probability():
    np.testing.assert_allclose(potential(label(1), 3, label_noise=0.1), [0.1, 0.9, 0.9, 0.9], rtol=1e-15)
    np.testing.assert_allclose(potential(label(0), 3, label_noise=0.1), [0.9, 0.1, 0.1, 0.1], rtol=1e-15)


def test_label_noise_concerns_labels_only():
    others = Evidence.concat([fraction(0.3, 20.0), count(1, 2), label(NAN)])
    sizes = np.array([4, 4, 4])
    np.testing.assert_array_equal(log_potentials(others, sizes, label_noise=0.2), log_potentials(others, sizes))


@pytest.mark.parametrize("confidence", [0.5, 10.0, 1000.0])
@pytest.mark.parametrize("m", [0.0, 0.01, 0.3, 0.5, 1.0])
def test_a_fraction_is_the_density_of_a_beta_law_with_its_normaliser(m, confidence):
    n, k = 8, np.arange(9)
    expected = beta(confidence * k / n + 1, confidence * (1 - k / n) + 1).pdf(m)
    np.testing.assert_allclose(potential(fraction(m, confidence), n), expected, rtol=1e-9, atol=1e-300)


def test_the_normaliser_of_the_beta_law_depends_on_the_count():
    """Without it every count would weigh the same at m = ½; with it the middle is the most probable."""
    psi = potential(fraction(0.5, 100.0), 10)
    assert psi.argmax() == 5
    assert psi[5] / psi[4] > 2


@pytest.mark.parametrize(("m", "only"), [(0.0, 0), (1.0, 6)])
def test_fractions_zero_and_one_are_certain_whatever_the_confidence(m, only):
    for confidence in (1e-3, 1.0, 1e6):
        assert np.flatnonzero(potential(fraction(m, confidence), 6)).tolist() == [only]


def test_more_confidence_is_a_narrower_potential():
    spread = []
    for confidence in (1.0, 10.0, 100.0, 1e4):
        psi = potential(fraction(0.3, confidence), 20)
        k = np.arange(21) / 20
        mean = psi @ k / psi.sum()
        spread.append(np.sqrt(psi @ (k - mean) ** 2 / psi.sum()))
    assert (np.diff(spread) < 0).all()


def test_a_range_allows_what_is_inside_it():
    np.testing.assert_array_equal(potential(count(1, 3), 5), [0, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(potential(count(0, 5), 5), np.ones(6))
    np.testing.assert_array_equal(potential(count(2, 2), 2), [0, 0, 1])


def test_nothing_known_is_a_constant():
    for nothing in (label(NAN), fraction(NAN), count(NAN, 2), count(1, NAN)):
        np.testing.assert_array_equal(potential(nothing, 4), np.ones(5))


def test_mixed_bags_of_several_sizes_stand_one_after_the_other():
    parts = [label(1), fraction(0.25, 40.0), count(2, 3), label(NAN), label(0)]
    sizes = np.array([2, 4, 3, 1, 5])
    together = log_potentials(Evidence.concat(parts), sizes)
    alone = [log_potentials(part, sizes[[b]]) for b, part in enumerate(parts)]
    np.testing.assert_array_equal(together, np.concatenate(alone))


# ---------------------------------------------------------------- statements


def test_kinds_are_told_apart_and_missing_values_say_nothing():
    evidence = Evidence.concat([label([0, 1, NAN]), fraction([0.2, NAN], 5.0), count([1, NAN], [2, 3])])
    assert evidence.kind.tolist() == [LABEL, LABEL, NONE, FRACTION, NONE, COUNT, NONE]
    assert len(evidence) == 7
    assert evidence.shape == (7,)


def test_one_number_serves_all_bags():
    np.testing.assert_array_equal(fraction([0.1, 0.2], 7.0).second, [7.0, 7.0])
    np.testing.assert_array_equal(count(0, [2, 3]).first, [0.0, 0.0])
    assert len(label(1)) == len(fraction(0.5)) == len(count(1, 2)) == 1


@pytest.mark.parametrize("missing", [None, NAN, pd.NA])
def test_any_missing_value_will_do(missing):
    assert label([1, missing]).kind.tolist() == [LABEL, NONE]
    assert fraction(pd.Series([missing, 0.5], dtype=object)).kind.tolist() == [NONE, FRACTION]


def test_tensors_are_taken():
    np.testing.assert_array_equal(fraction(torch.tensor([0.25, 0.5])).first, [0.25, 0.5])


def test_a_missing_fraction_needs_no_confidence():
    assert fraction([0.2, NAN], [10.0, NAN]).kind.tolist() == [FRACTION, NONE]


def test_the_given_arrays_are_copied():
    m, trust = np.array([0.1, 0.2]), np.array([3.0, 4.0])
    evidence = fraction(m, trust)
    m[:], trust[:] = 0.9, 9.0
    np.testing.assert_array_equal(evidence.first, [0.1, 0.2])
    np.testing.assert_array_equal(evidence.second, [3.0, 4.0])


@pytest.fixture
def mixed():
    return Evidence.concat([label([0, 1]), fraction([0.2, 0.4], [3.0, 4.0]), count([1, 0], [2, 1])])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (2, [2]),
        (-1, [5]),
        (slice(1, 4), [1, 2, 3]),
        ([5, 0, 0], [5, 0, 0]),
        (np.array([4, 1]), [4, 1]),
        (np.array([False, True, False, False, True, False]), [1, 4]),
    ],
)
def test_indexing_is_by_bag(mixed, key, expected):
    part = mixed[key]
    assert isinstance(part, Evidence)
    for name in ("kind", "first", "second"):
        np.testing.assert_array_equal(getattr(part, name), getattr(mixed, name)[expected])


def test_a_bag_that_is_not_there_is_an_error(mixed):
    with pytest.raises(IndexError):
        mixed[6]


def test_iteration_goes_bag_by_bag_and_concat_puts_together_again(mixed):
    parts = list(mixed)
    assert [len(part) for part in parts] == [1] * 6
    for name in ("kind", "first", "second"):
        np.testing.assert_array_equal(getattr(Evidence.concat(parts), name), getattr(mixed, name))


def test_nothing_cannot_be_joined():
    with pytest.raises(BagDataError, match=r"Evidence\.concat: there is nothing to join"):
        Evidence.concat([])


@pytest.mark.parametrize("key", [[4, 0, 2], np.array([4, 0, 2]), (4, 0, 2)])
def test_scikit_learn_can_cut_it(mixed, key):
    part = _safe_indexing(mixed, key)
    assert isinstance(part, Evidence)
    np.testing.assert_array_equal(part.first, mixed.first[[4, 0, 2]])


def test_scikit_learn_can_cut_it_by_a_mask(mixed):
    mask = np.arange(6) % 2 == 0
    np.testing.assert_array_equal(_safe_indexing(mixed, mask).first, mixed.first[mask])


# ---------------------------------------------------------------- with an estimator


@pytest.fixture(scope="module")
def fraction_problem():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=18, sizes=(2, 5))
    positive = bags.X[:, 0] > 0.3
    share = np.add.reduceat(positive, bags.offsets[:-1]) / bags.sizes
    half = len(bags) // 2
    both = Evidence.concat([fraction(share[:half], 50.0), label((share[half:] > 0).astype(float))])
    return bags, both, (share > 0).astype(int)


MODEL = BagGP(learn=False, n_inducing=8, random_state=0)


def test_cross_validation_of_mixed_evidence_scores_what_the_bags_hold(fraction_problem):
    bags, evidence, holds = fraction_problem
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(MODEL, bags, evidence, cv=folds)
    expected = []
    for train, test in folds.split(bags):
        model = BagGP(**MODEL.get_params()).fit(bags[train], evidence[train])
        expected.append(np.mean(model.predict(bags[test]) == holds[test]))
    np.testing.assert_array_equal(scores, expected)


def test_a_number_of_folds_is_enough(fraction_problem):
    """scikit-learn must not take statements for classes to stratify by."""
    bags, evidence, _ = fraction_problem
    assert len(cross_val_score(MODEL, bags, evidence, cv=3)) == 3
    search = GridSearchCV(MODEL, {"bias": [0.0, 5.0]}, cv=3).fit(bags, evidence)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: label([0, 1, 2]), r"entry 2: found 2; a label is 0, 1 or NaN"),
        (lambda: label([0.5]), r"entry 0: found 0\.5; a label"),
        (lambda: label(["yes", "no"]), "expected numbers, one per bag"),
        (lambda: label([[0, 1], [1, 0]]), r"expected one number per bag, got arrays of shape \(2, 2\)"),
        (lambda: fraction([0.2, 1.2]), r"entry 1: found 1\.2; a fraction lies in \[0, 1\]"),
        (lambda: fraction([-0.1]), r"entry 0: found -0\.1; a fraction"),
        (lambda: fraction([np.inf]), r"entry 0: found inf; a fraction"),
        (lambda: fraction([0.2, 0.3], [1.0, -1.0]), r"entry 1: found -1; a confidence is a number of at least 0"),
        (lambda: fraction(0.2, -3.0), r"entry 0: found -3; a confidence"),
        (lambda: fraction(0.2, NAN), r"entry 0: found nan; a confidence"),
        (lambda: fraction(0.2, np.inf), r"entry 0: found inf; a confidence"),
        (lambda: fraction([0.2, 0.3], [1.0, 2.0, 3.0]), r"one number per bag, got arrays of shape \(2,\) and \(3,\)"),
        (lambda: fraction([0.2], [1.0, 2.0]), r"got arrays of shape \(1,\) and \(2,\)"),
        (
            lambda: count([0, 3], [1, 2]),
            r"entry 1: found 3; the lowest number of positives must not exceed the highest",
        ),
        (lambda: count([1.5], [2]), r"entry 0: found 1\.5; a count is a whole number of at least 0"),
        (lambda: count([1], [2.5]), r"entry 0: found 2\.5; a count"),
        (lambda: count([-1], [2]), r"entry 0: found -1; a count"),
        (lambda: count([1], [np.inf]), r"entry 0: found inf; a count"),
    ],
)
def test_bad_values_are_refused_with_their_place(make, message):
    with pytest.raises(BagDataError, match=message):
        make()


def test_bags_can_be_named_in_the_message():
    with pytest.raises(BagDataError, match=r"bag 'slide 7': found 1\.2; a fraction"):
        fraction([0.1, 1.2], ids=("slide 3", "slide 7"))
    with pytest.raises(BagDataError, match=r"bag 'a': found 3; the lowest number"):
        count([3], [2], ids=("a",))


def test_no_confidence_is_no_evidence():
    said = fraction([0.2, 0.0, 0.7], [0.0, 0.0, 5.0])
    assert said.kind.tolist() == [NONE, NONE, FRACTION]
    assert not potential(fraction(0.3, 0.0), 4).std()


def test_guessed_fractions_share_a_bag_out_among_its_words():
    words = [["fox", "snow"], ("fox",), {"tree", "sky", "fox"}, ["tree", "tree"]]
    np.testing.assert_allclose(guessed_fractions(words, "fox"), [1 / 2, 1.0, 1 / 3, 0.0])
    np.testing.assert_allclose(guessed_fractions(words, "tree"), [0.0, 0.0, 1 / 3, 1.0])
    for bad in (["fox snow"], [[]]):
        with pytest.raises(BagDataError, match="entry 0: expected the words"):
            guessed_fractions(bad, "fox")


CONFIDENCES = [1e-6, 1.0, 7.5, 1e2, 1e4, 1e7, 1e12, 1e18]


def by_digits(m, share, confidence):
    with mpmath.workdps(80):
        m, s, x = (mpmath.mpf(float(part)) for part in (m, share, confidence))
        a, b = x * s, x * (1 - s)
        normaliser = mpmath.loggamma(a + 1) + mpmath.loggamma(b + 1) - mpmath.loggamma(x + 2)
        return float(a * mpmath.log(m) + b * mpmath.log(1 - m) - normaliser)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("share", [0.0, 1 / 1024, 0.25, 0.3, 0.5, 0.875, 1.0])
@pytest.mark.parametrize("m", [0.25, 0.3, 0.5, 0.9])
def test_log_beta_density_equals_eighty_digits(confidence, share, m):
    found = float(log_beta_density(*np.array([m, share, confidence])))
    assert found == pytest.approx(by_digits(m, share, confidence), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_log_beta_density_keeps_its_digits_where_fraction_and_share_almost_agree(confidence):
    for away in (0.0, 1e-9, 1e-4, 2.9e-3, 3.1e-3, 1e-2):
        found = float(log_beta_density(*np.array([0.3 + away, 0.3, confidence])))
        assert found == pytest.approx(by_digits(0.3 + away, 0.3, confidence), rel=1e-10, abs=1e-6)  # nats


def test_log_beta_density_equals_scipy_at_ordinary_confidences():
    m, share = np.meshgrid(np.linspace(0.01, 0.99, 13), np.linspace(0, 1, 11))
    for confidence in (1.0, 30.0, 1000.0):
        expected = beta.logpdf(m, confidence * share + 1, confidence * (1 - share) + 1)
        found = log_beta_density(m, share, np.full_like(m, confidence))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("m", "only"), [(0.0, 0.0), (1.0, 1.0)])
def test_certain_fraction_has_density_at_its_own_share_only(m, only):
    share = np.linspace(0, 1, 6)
    found = log_beta_density(np.full(6, m), share, np.full(6, 50.0))
    assert np.array_equal(np.isfinite(found), share == only)
    assert found[share == only] == pytest.approx(np.log(51.0))
