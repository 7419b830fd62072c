"""BagGP as its user meets it: kinds of evidence, choice and failure of the inference, what can be read and saved."""

import itertools
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from gpytorch import kernels as gpk
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import bagwise
from bagwise import BagDataError, BagDataWarning, BagGP, Bags, ConvergenceWarning
from bagwise.datasets import make_bags
from bagwise.evidence.statements import Evidence, count, fraction, label
from bagwise.exceptions import NumericalError
from bagwise.inference import engines
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.kernel_learning.by_bags import ROUGH
from bagwise.inference.mean_field import MeanField

NAN = np.nan


@pytest.fixture(scope="module")
def problem():
    """Bags of 2 to 6 with their labels and the number of positives in each."""
    bags, y, z = make_bags(24, (2, 6), 2, random_state=0)
    return bags, y, np.add.reduceat(z, bags.offsets[:-1])


def quick(**changes):
    """Nothing learned, few inducing inputs."""
    return BagGP(**{"learn": False, "n_inducing": 10, "random_state": 0} | changes)


# ---------------------------------------------------------------- the rule of "auto"


def mixed(bags, statement):
    """Labels everywhere but in the last bag."""
    return Evidence.concat([label(np.arange(len(bags) - 1) % 2), statement])


@pytest.mark.parametrize(
    ("statement", "chosen"),
    [
        (label(1), "ep"),
        (count(0, 2), "ep"),  # at most
        (count(2, 5), "ep"),  # at least, in a bag of 5
        (count(0, 0), "ep"),
        (count(5, 5), "ep"),
        (count(2, 2), "vi"),  # pinned from both sides
        (count(1, 4), "vi"),
        (fraction(0.4, 5.0), "ep"),  # no more confidence than the bag has instances
        (fraction(0.4, 5.1), "vi"),
        (fraction(0.0, 1000.0), "ep"),  # certain: every instance is known
        (fraction(1.0, 1000.0), "ep"),
        (fraction(NAN, 1000.0), "ep"),
    ],
)
def test_auto_takes_the_mean_field_where_a_count_is_pinned_from_both_sides(statement, chosen):
    bags = Bags(np.random.default_rng(0).normal(size=(25, 2)), np.repeat(np.arange(5), 5))
    assert quick(inference="auto").fit(bags, mixed(bags, statement)).inference_ == chosen


def test_auto_takes_the_mean_field_where_there_is_much(problem, monkeypatch):
    bags, y, _ = problem
    monkeypatch.setattr(engines, "LARGEST_MESSAGES", 2 * bags.n_instances - 1)
    assert quick().fit(bags, y).inference_ == "ep"
    assert quick().fit(bags, np.column_stack([y, 1 - y])).inference_ == "vi"  # two labels: twice as much


@pytest.mark.parametrize("inference", ["ep", "vi"])
def test_what_is_asked_for_is_done(problem, inference):
    bags, _, k = problem
    model = quick(inference=inference, evidence="fraction", confidence=3.0).fit(bags, k / bags.sizes)
    assert model.inference_ == inference
    assert model.trace_.name == {"ep": "log evidence", "vi": "bound"}[inference]
    assert model.converged_


# ---------------------------------------------------------------- failure is reported, never silent


def failing(error):
    def step(self):
        raise NumericalError(error)

    return step


def test_where_expectation_propagation_breaks_the_mean_field_answers_and_says_so(problem, monkeypatch):
    bags, y, _ = problem
    expected = quick(inference="vi").fit(bags, y)
    monkeypatch.setattr(ExpectationPropagation, "step", failing("broken on purpose"))
    with pytest.warns(ConvergenceWarning, match=r"failed \(broken on purpose\).*inference_ is '(bag-ep|vi)'") as caught:
        model = quick(inference="ep").fit(bags, y)
    assert len(caught) == 2  # from messages to one site per bag, and from there to the mean field
    assert {warning.filename for warning in caught} == {__file__}
    assert model.inference_ == "vi"
    assert model.trace_.name == "bound"
    np.testing.assert_array_equal(model.predict_proba(bags), expected.predict_proba(bags))
    assert model.log_evidence_ == expected.log_evidence_


def test_where_messages_do_not_settle_one_site_per_bag_answers_and_says_so(problem, monkeypatch):
    bags, y, _ = problem
    monkeypatch.setitem(engines._CAP, "ep", 3)
    with pytest.warns(ConvergenceWarning, match="its messages still moved by .* after 3 sweeps"):
        assert quick().fit(bags, y).inference_ == "bag-ep"


def test_where_no_expectation_propagation_settles_the_mean_field_answers_and_says_so(problem, monkeypatch):
    bags, _, k = problem
    monkeypatch.setitem(engines._CAP, "ep", 3)
    with pytest.warns(ConvergenceWarning, match="its messages still moved by .* after 3 sweeps"):
        model = quick(inference="ep", evidence="fraction", confidence=3.0).fit(bags, k / bags.sizes)
    assert model.inference_ == "vi"


def test_an_impossible_log_evidence_is_a_failure(problem, monkeypatch):
    bags, y, _ = problem
    original = ExpectationPropagation.finish

    def finish(self):
        original(self)
        self.log_evidence = self.log_evidence * 0 + 0.1

    monkeypatch.setattr(ExpectationPropagation, "finish", finish)
    with pytest.warns(ConvergenceWarning, match="a log evidence above the highest that there can be"):
        assert quick().fit(bags, y).inference_ == "vi"


def test_a_mean_field_that_does_not_settle_says_so(problem):
    bags, y, _ = problem
    with pytest.warns(ConvergenceWarning, match="the bound had not settled after 1 iterations") as caught:
        model = quick(inference="vi", max_iter=1).fit(bags, y)
    assert caught[0].filename == __file__
    assert not model.converged_


def test_certain_evidence_is_not_taken_for_a_failure():
    """Potentials that are 1 everywhere: log evidence 0, give or take rounding, is right."""
    rng = np.random.default_rng(0)
    for seed in range(3):
        bags, _, _ = make_bags(40, (1, 9), 2, random_state=seed)
        evidence = Evidence.concat([count(0, bags.sizes[:-1]), label(rng.integers(0, 2))])
        assert quick(inference="ep").fit(bags, evidence).inference_ == "ep"


# ---------------------------------------------------------------- watching and interrupting


@pytest.mark.parametrize("inference", ["ep", "vi"])
def test_the_callback_sees_every_iteration_of_the_inference(problem, inference):
    bags, y, _ = problem
    seen = []
    model = quick(inference=inference, callback=lambda i, value: seen.append((i, value))).fit(bags, y)
    assert [i for i, _ in seen] == list(range(1, model.n_iter_ + 1))
    np.testing.assert_array_equal([value for _, value in seen], model.trace_.values)


def test_progress_of_learning_and_inference_is_shown_only_when_asked_for(problem, capsys):
    bags, y, _ = problem
    quick(learn=True).fit(bags, y)
    assert capsys.readouterr() == ("", "")
    quick(learn=True, verbose=1).fit(bags, y)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "learning the kernel" in shown.err
    assert "BagGP" in shown.err


def interrupting(kind, name, after):
    calls, original = itertools.count(1), getattr(kind, name)

    def step(self):
        if next(calls) == after:
            raise KeyboardInterrupt
        return original(self)

    return step


@pytest.mark.parametrize(("inference", "kind", "name"), [
    ("ep", ExpectationPropagation, "step"), ("vi", MeanField, "lbfgs_step")
])  # fmt: skip
def test_an_interrupted_inference_keeps_what_it_had_and_passes_the_interruption_on(
    problem, inference, kind, name, monkeypatch
):
    bags, y, _ = problem
    model = quick(inference=inference)
    monkeypatch.setattr(kind, name, interrupting(kind, name, 4))
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 iterations"):
        model.fit(bags, y)
    assert model.trace_.interrupted
    assert np.isfinite(model.predict_proba(bags)).all()


def test_interrupted_learning_leaves_a_usable_model_and_passes_the_interruption_on(problem, monkeypatch, tmp_path):
    bags, y, _ = problem
    model = quick(learn=True, size_effect=False)
    monkeypatch.setattr(ExpectationPropagation, "step", interrupting(ExpectationPropagation, "step", 40))
    with pytest.raises(KeyboardInterrupt, match="interrupted while learning the kernel"):
        model.fit(bags, y)
    assert model.learning_trace_.interrupted
    assert model.converged_  # the inference at the best kernel so far was made
    assert model.score(bags, y) > 0.6
    model.save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))


# ---------------------------------------------------------------- forms of evidence


def test_fractions_as_array_column_series_and_dict(problem):
    bags, _, k = problem
    share = k / bags.sizes
    model = quick(evidence="fraction")
    expected = model.fit(bags, share).predict_proba(bags)
    shuffled = np.random.default_rng(0).permutation(len(bags))
    series = pd.Series(share, index=list(bags.ids)).iloc[shuffled]
    for form in (share[:, None], share.tolist(), series, series.to_dict(), fraction(share)):
        np.testing.assert_array_equal(model.fit(bags, form).predict_proba(bags), expected)


def test_counts_as_array_frame_and_dict(problem):
    bags, _, k = problem
    pairs = np.column_stack([np.maximum(k - 1, 0), np.minimum(k + 1, bags.sizes)])
    model = quick(evidence="count")
    expected = model.fit(bags, pairs).predict_proba(bags)
    shuffled = np.random.default_rng(0).permutation(len(bags))
    frame = pd.DataFrame(pairs, index=list(bags.ids), columns=["low", "high"]).iloc[shuffled]
    by_id = {name: tuple(row) for name, row in zip(frame.index, frame.to_numpy(), strict=True)}
    for form in (pairs.tolist(), frame, by_id, count(pairs[:, 0], pairs[:, 1])):
        np.testing.assert_array_equal(model.fit(bags, form).predict_proba(bags), expected)


def test_evidence_whole_in_pieces_and_by_id(problem):
    bags, y, k = problem
    half = len(bags) // 2
    parts = [label(y[:half]), fraction(k[half:] / bags.sizes[half:], 20.0)]
    evidence = Evidence.concat(parts)
    expected = quick().fit(bags, evidence).predict_proba(bags)
    by_id = {name: evidence[b] for b, name in reversed(list(enumerate(bags.ids)))}
    series = pd.Series(by_id, dtype=object)
    for form in (parts, tuple(parts), list(evidence), np.asarray(evidence), by_id, series):
        np.testing.assert_array_equal(quick().fit(bags, form).predict_proba(bags), expected)


def test_evidence_speaks_for_itself_whatever_the_model_was_told(problem):
    bags, y, _ = problem
    expected = quick().fit(bags, y).predict_proba(bags)
    for kind in ("fraction", "count"):
        np.testing.assert_allclose(quick(evidence=kind).fit(bags, label(y)).predict_proba(bags), expected, atol=1e-12)


def test_kinds_mix_bag_by_bag_and_each_is_heard(problem):
    bags, y, k = problem
    evidence = Evidence.concat(
        [label(y[:8]), fraction(k[8:14] / bags.sizes[8:14], 50.0), count(k[14:20], k[14:20]), label(np.full(4, NAN))]
    )
    model = quick().fit(bags, evidence)
    for changed, other in ((0, label(1 - y[:1])), (10, fraction(0.1, 50.0)), (16, count(0, 0))):
        parts = [evidence[:changed], other, evidence[changed + 1 :]]
        told = quick().fit(bags, Evidence.concat(parts))
        assert np.abs(told.predict_proba(bags) - model.predict_proba(bags)).max() > 1e-3
    assert list(model.classes_) == [0, 1]


def test_confidence_may_differ_from_bag_to_bag(problem):
    bags, _, k = problem
    share, trust = k / bags.sizes, np.linspace(1.0, 200.0, len(bags))
    model = quick(evidence="fraction", confidence=trust).fit(bags, share)
    np.testing.assert_array_equal(
        model.predict_proba(bags), quick().fit(bags, fraction(share, trust)).predict_proba(bags)
    )
    assert (
        np.abs(model.predict_proba(bags) - quick(evidence="fraction").fit(bags, share).predict_proba(bags)).max() > 1e-3
    )


def test_more_confidence_brings_the_predicted_fraction_nearer(problem):
    bags, _, k = problem
    share = k / bags.sizes
    errors = []
    for confidence in (0.1, 10.0, 1000.0):
        model = quick(evidence="fraction", confidence=confidence, inference="vi").fit(bags, share)
        errors.append(np.abs(model.predict_fraction(bags).mean - share).mean())
    assert errors[0] > errors[1] > errors[2]


def test_known_instances_teach(problem):
    bags, y, _ = problem
    row = int(bags.offsets[np.flatnonzero(y)[0]])
    believed = []
    for value in (0.0, NAN, 1.0):
        z = np.full(bags.n_instances, NAN)
        z[row] = value
        believed.append(quick().fit(bags.with_known(z), y).predict_instance_proba(bags)[row, 1])
    assert believed[0] + 0.02 < believed[1] < believed[2] - 0.02


def test_known_instances_beside_labels_that_are_all_missing_or_all_the_same_need_no_warning(problem):
    bags, _, _ = problem
    z = np.full(bags.n_instances, NAN)
    z[:6] = [0, 1, 0, 1, 1, 0]
    known = bags.with_known(z)
    quick().fit(known, np.full(len(bags), NAN))
    quick(evidence="fraction").fit(known, np.full(len(bags), NAN))
    quick().fit(bags.with_known(np.where(z == 1, NAN, z)), np.zeros(len(bags)))


def test_without_any_evidence_there_is_a_warning(problem):
    bags, _, _ = problem
    nothing = np.full(len(bags), NAN)
    for kind, y in (("label", nothing), ("fraction", nothing), ("count", np.column_stack([nothing, nothing]))):
        with pytest.warns(BagDataWarning, match="can only answer with its prior") as caught:
            model = quick(evidence=kind, learn=True).fit(bags, y)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(model.predict_latent(bags)[0], 0.0)
        assert model.learning_trace_ is None


# ---------------------------------------------------------------- bad evidence


@pytest.fixture
def three():
    return Bags(np.random.default_rng(0).normal(size=(9, 2)), ["left"] * 2 + ["middle"] * 3 + ["right"] * 4)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"evidence": "fraction"}, [0.1, 1.2, 0.3], r"bag 'middle': found 1\.2; a fraction lies in \[0, 1\]"),
        ({"evidence": "fraction"}, [[0.1, 0.2]] * 3, r"bag 'left': its 2 outcomes add up to 0\.3, where 1 was"),
        ({"evidence": "fraction"}, ["much", "little", "none"], "evidence='fraction': y must hold numbers"),
        ({"evidence": "fraction", "confidence": 0.0}, [0.1, 0.2, 0.3], "bag 'left': found 0; a confidence"),
        ({"evidence": "fraction", "confidence": [1.0, -1.0, 1.0]}, [0.1] * 3, "bag 'middle': found -1; a confidence"),
        ({"evidence": "fraction", "confidence": [1.0, 2.0]}, [0.1] * 3, r"one per bag \(3\), got shape \(2,\)"),
        ({"evidence": "fraction", "confidence": "high"}, [0.1] * 3, "confidence='high': expected a positive number"),
        ({"evidence": "count"}, [1, 1.5, 3], r"bag 'middle': found 1\.5; a count is a whole number"),
        ({"evidence": "count"}, [[1, 2, 3]] * 3, "bag 'left': its 3 outcomes add up to 6, where 2 was expected"),
        ({"evidence": "count"}, [[0, 1], [0, 4], [1, 2]], "bag 'middle' has 3 instances.*given as 4; it can be 3"),
        ({"evidence": "count"}, [[0, 1], [2, 1], [1, 2]], "bag 'middle': found 2; the lowest number of positives must"),
        ({"evidence": "count"}, [[0, 1], [0.5, 1], [1, 2]], r"bag 'middle': found 0\.5; a count is a whole number"),
        ({"evidence": "count"}, {"left": (0, 1), "middle": (0, 1)}, "no entry for bag 'right'"),
        ({"evidence": "count"}, {"left": (0, 1), "middle": 2, "right": (0, 1)}, "y must hold numbers"),
        ({"evidence": "fraction"}, [0.1, 0.2], "y has 2 entries, but there are 3 bags"),
        ({"evidence": "fraction"}, np.array(0.5), r"expected one label per bag.*got shape \(\)"),
        ({"evidence": "count"}, None, "requires y to be passed"),
        ({"evidence": "label"}, [0.1, 0.2, 0.7], "which are no labels. If they are fractions"),
        ({}, label([0, 1]), "y has 2 statements, but there are 3 bags"),
        ({}, [label([0, 1]), fraction([0.1, 0.2])], "y has 4 statements, but there are 3 bags"),
        ({}, {"left": label(0), "middle": label(1), "wrong": label(1)}, "unknown bag 'wrong'"),
        ({}, count([0, 0, 5], [1, 1, 5]), "bag 'right' has 4 instances"),
        ({"label_noise": 0.5}, [0, 1, 1], r"label_noise=0\.5: expected a number of at least 0 and below 0\.5"),
        ({"evidence": "many"}, [0, 1, 1], "evidence='many': expected one of 'label', 'fraction', 'count'"),
        ({"inference": "magic"}, [0, 1, 1], "inference='magic': expected one of"),
        ({"learn": "yes"}, [0, 1, 1], "learn='yes': expected True or False"),
        ({"n_restarts": 0}, [0, 1, 1], "n_restarts=0: expected a whole number of at least 1"),
        ({"ard": True, "kernel": "linear"}, [0, 1, 1], "ard=True needs a kernel with lengthscales"),
        ({"ard": True, "kernel": gpk.RBFKernel()}, [0, 1, 1], "ard=True is for kernels given by name"),
        ({"learn": True, "lengthscale": 2.0, "kernel": gpk.RBFKernel()}, [0, 1, 1], "lengthscale is for kernels given"),
    ],
)
def test_bad_evidence_and_settings_are_refused(three, settings, y, message):
    with pytest.raises(BagDataError, match=message):
        quick(**settings).fit(three, y)


@pytest.mark.parametrize(
    ("known", "evidence", "bag", "row"),
    [
        ({3: 1}, label([0, 0, 0]), "middle", 3),
        ({2: 0, 3: 1}, label([0, 0, 0]), "middle", 3),  # not the harmless negative in row 2
        ({5: 0, 6: 0, 7: 0, 8: 0}, label([0, 0, 1]), "right", 5),
        ({5: 1, 6: 0}, fraction([NAN, NAN, 1.0]), "right", 6),
        ({0: 1, 1: 1}, count([0, 0, 0], [1, 3, 4]), "left", 0),
        ({0: 1, 2: 0, 4: 0}, count([0, 2, 0], [2, 3, 4]), "middle", 2),
    ],
)
def test_contradictions_name_the_bag_and_an_instance(three, known, evidence, bag, row):
    z = np.full(9, NAN)
    z[list(known)] = list(known.values())
    with pytest.raises(BagDataError, match=rf"bag '{bag}' contradicts its instances.* row {row} of the table"):
        quick().fit(three.with_known(z), evidence)


def test_a_contradiction_names_the_row_of_the_users_own_table():
    """Rows come in any order; the message speaks of them as the user knows them."""
    bags = Bags(np.random.default_rng(0).normal(size=(6, 2)), ["b", "a", "b", "a", "b", "a"])
    known = np.full(6, NAN)
    known[np.flatnonzero(bags.rows == 3)] = 1.0
    with pytest.raises(BagDataError, match=r"bag 'a' contradicts its instances.* row 3 of the table"):
        quick().fit(bags.with_known(known), {"a": 0, "b": 1})


def test_a_noisy_label_may_be_contradicted(three):
    z = np.full(9, NAN)
    z[3] = 1.0
    model = quick(label_noise=0.1).fit(three.with_known(z), [0, 0, 1])
    assert model.predict_instance_proba(three)[3, 1] > 0.5


def test_known_instances_with_several_label_columns_are_refused(three):
    z = np.full(9, NAN)
    with pytest.raises(BagDataError, match="nothing says which one they belong to"):
        quick().fit(three.with_known(np.where(np.arange(9) == 2, 0.0, z)), [[0, 1], [1, 0], [1, 1]])
    quick().fit(three.with_known(z), [[0, 1], [1, 0], [1, 1]])  # nothing is known after all


# ---------------------------------------------------------------- what can be read, saved and scored


def test_what_was_learned_can_be_read(problem):
    bags, y, _ = problem
    model = quick(learn=True, ard=True).fit(bags, y)
    assert isinstance(model.kernel_, gpk.ScaleKernel)
    assert model.kernel_.base_kernel.lengthscale.shape == (1, 2)
    assert model.relevance_.shape == (2,)
    assert model.relevance_.sum() == pytest.approx(1.0)
    assert isinstance(model.mean_, float)
    assert model.mean_ < 0  # most instances are negative
    assert model.learning_trace_.name == "log evidence + log prior"
    assert (np.diff(model.learning_trace_.values) >= 0).all()
    assert model.log_evidence_ < 0


def test_relevance_is_equal_without_ard_and_none_without_lengthscales(problem):
    bags, y, _ = problem
    np.testing.assert_allclose(quick().fit(bags, y).relevance_, 0.5)
    assert quick(kernel="linear").fit(bags, y).relevance_ is None


def test_the_mean_of_several_labels_is_one_number_each(problem):
    bags, y, _ = problem
    model = quick().fit(bags, np.column_stack([y, 1 - y]))
    assert model.mean_.shape == model.log_evidence_.shape == (2,)
    assert quick(bias=0.0).fit(bags, y).mean_ == 0.0


@pytest.mark.parametrize("inference", ["ep", "vi"])
def test_saved_and_loaded_it_is_the_same(problem, inference, tmp_path):
    bags, _, k = problem
    trust = np.linspace(1.0, 20.0, len(bags))
    model = quick(learn=True, inference=inference, evidence="fraction", confidence=trust).fit(bags, k / bags.sizes)
    model.save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    assert isinstance(again, BagGP)
    assert again.inference_ == inference
    assert again.evidence == "fraction"
    np.testing.assert_array_equal(again.confidence, trust)
    np.testing.assert_array_equal(again.learning_trace_.values, model.learning_trace_.values)
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))
    np.testing.assert_array_equal(again.predict_count_proba(bags, 1, 2), model.predict_count_proba(bags, 1, 2))
    assert again.kernel_.outputscale.item() == model.kernel_.outputscale.item()
    assert (again.mean_, again.log_evidence_) == (model.mean_, model.log_evidence_)


def test_the_fallback_is_remembered_in_the_file(problem, monkeypatch, tmp_path):
    bags, y, _ = problem
    monkeypatch.setattr(ExpectationPropagation, "step", failing("broken"))
    with pytest.warns(ConvergenceWarning):
        quick(inference="ep").fit(bags, y).save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    assert (again.inference, again.inference_) == ("ep", "vi")


def test_scores_of_fractions_and_counts_are_about_holding_a_positive(problem):
    bags, y, k = problem
    model = quick().fit(bags, y)
    expected = np.mean(model.predict(bags) == y)
    share = k / bags.sizes
    pairs = np.column_stack([k, k])
    assert model.score(bags, label(y)) == expected
    assert model.score(bags, fraction(share)) == expected
    assert quick(evidence="fraction").fit(bags, share).score(bags, share) == pytest.approx(
        np.mean(quick(evidence="fraction").fit(bags, share).predict(bags) == y)
    )
    counted = quick(evidence="count").fit(bags, pairs)
    assert counted.score(bags, pairs) == np.mean(counted.predict(bags) == y)
    weights = np.linspace(0.0, 1.0, len(bags))
    assert counted.score(bags, pairs, weights) == pytest.approx(np.average(counted.predict(bags) == y, weights=weights))


def test_bags_that_may_or_may_not_hold_a_positive_do_not_count(problem):
    bags, y, k = problem
    model = quick().fit(bags, y)
    low, high = k.copy(), k.copy()
    low[:5], high[:5] = 0, bags.sizes[:5]
    assert model.score(bags, count(low, high)) == np.mean((model.predict(bags) == y)[5:])
    some = k / bags.sizes
    some[3:6] = NAN
    seen = ~np.isnan(some)
    assert model.score(bags, fraction(some)) == np.mean((model.predict(bags) == y)[seen])
    with pytest.raises(BagDataError, match="nothing to compare the predictions with"):
        model.score(bags, count(0, bags.sizes))


def test_scores_speak_the_classes_of_the_fit(problem):
    bags, y, k = problem
    model = quick().fit(bags, np.where(y == 1, "sick", "healthy"))
    assert model.score(bags, fraction(k / bags.sizes)) == model.score(bags, np.where(y == 1, "sick", "healthy"))


def test_bad_scores_are_refused(problem):
    bags, y, k = problem
    model = quick(evidence="fraction").fit(bags, k / bags.sizes)
    with pytest.raises(BagDataError, match="a fraction lies in"):
        model.score(bags, k + 1.5)
    with pytest.raises(BagDataError, match=f"y has 3 statements, but there are {len(bags)} bags"):
        model.score(bags, label([0, 1, 1]))
    several = quick().fit(bags, np.column_stack([y, 1 - y]))
    with pytest.raises(BagDataError, match="y has 1 label columns; the model was fitted with 2"):
        several.score(bags, fraction(k / bags.sizes))


# ---------------------------------------------------------------- in company


def test_grid_search_over_inference_and_inducing_inputs(problem):
    bags, y, _ = problem
    grid = {"inference": ["ep", "vi"], "n_inducing": [4, 10]}
    search = GridSearchCV(quick(), grid, cv=3).fit(bags, y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.inference_ == search.best_params_["inference"]


def test_cross_validation_of_fractions_and_counts(problem):
    bags, _, k = problem
    folds = KFold(3, shuffle=True, random_state=0)
    for kind, y in (("fraction", k / bags.sizes), ("count", np.column_stack([k, k]))):
        scores = cross_val_score(quick(evidence=kind), bags, y, cv=folds)
        assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize(
    "kernel",
    [
        gpk.ScaleKernel(gpk.RBFKernel()) + gpk.ScaleKernel(gpk.LinearKernel()),
        gpk.ScaleKernel(gpk.RBFKernel(active_dims=[0]) * gpk.MaternKernel(nu=1.5, active_dims=[1])),
        gpk.ScaleKernel(gpk.RBFKernel()) + gpk.ConstantKernel(),
    ],
    ids=["sum", "product", "constant"],
)
def test_sums_and_products_of_kernels_are_learned_and_saved(problem, kernel, tmp_path):
    bags, y, _ = problem
    fixed, learned = (quick(kernel=kernel, learn=learn).fit(bags, y) for learn in (False, True))
    assert learned.log_evidence_ > fixed.log_evidence_
    learned.save(tmp_path / "model")
    np.testing.assert_array_equal(bagwise.load(tmp_path / "model").predict_proba(bags), learned.predict_proba(bags))


@pytest.mark.parametrize("inference", ["ep", "vi"])
def test_single_precision_gives_nearly_the_same(problem, inference):
    bags, y, _ = problem
    double, single = (
        quick(learn=True, inference=inference, dtype=kind).fit(bags, y) for kind in ("float64", "float32")
    )
    assert single.inference_ == inference
    assert single.log_evidence_ == pytest.approx(double.log_evidence_, abs=0.02 + ROUGH)  # what a search may be off by
    np.testing.assert_allclose(single.predict_proba(bags), double.predict_proba(bags), atol=0.02)


def test_a_bag_of_ten_thousand_instances_with_a_label():
    rng = np.random.default_rng(0)
    sizes = np.r_[10_000, rng.integers(1, 6, 20)]
    X = rng.normal(size=(sizes.sum(), 2))
    bags = Bags(X, np.repeat(np.arange(21), sizes))
    y = np.maximum.reduceat(X[:, 0] > 1.2, bags.offsets[:-1]).astype(int)
    began = time.process_time()
    model = BagGP(n_inducing=15, random_state=0).fit(bags, y)
    assert time.process_time() - began < 30
    probability = model.predict_proba(bags)[:, 1]
    assert probability[0] > 0.99
    assert np.isfinite(model.predict_instance_proba(bags)).all()
    assert np.isfinite(model.log_evidence_)


def test_fitting_again_forgets_the_first_fit(problem):
    bags, y, k = problem
    model = quick(learn=True).fit(bags, y)
    model.set_params(learn=False, evidence="fraction").fit(bags, k / bags.sizes)
    assert model.learning_trace_ is None
    assert model.inference_ == "vi"
    fresh = quick(evidence="fraction").fit(bags, k / bags.sizes)
    np.testing.assert_array_equal(model.predict_proba(bags), fresh.predict_proba(bags))


def test_ordinary_fits_do_not_warn(problem):
    bags, y, k = problem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind, said in (("label", y), ("fraction", k / bags.sizes), ("count", np.column_stack([k, bags.sizes]))):
            quick(learn=True, evidence=kind).fit(bags, said)
