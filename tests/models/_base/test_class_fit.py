"""BagGP fitted to classes and candidates."""

from typing import ClassVar

import numpy as np
import pytest
from tests.models.class_problems import FAST, NAMES, problem

from bagwise import BagGP, Bags, Evidence, label
from bagwise.evidence.classes import read_classes
from bagwise.exceptions import BagDataError, ConvergenceWarning, NumericalError
from bagwise.inference import class_engines
from bagwise.inference.class_start import Guessed
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.models._base import class_fit


class Said:
    """What bags left out say: by how many standard errors they speak against a kernel, whoever asks."""

    against: ClassVar[dict] = {}

    def __init__(self, kernel, stated, seed):
        self.kernel = kernel

    def refutes(self, other, errors):
        return Said.against.get(other.kernel, 0.0) > errors


@pytest.fixture
def worth(monkeypatch):
    """How much kernels, which are names here, are worth by their guesses."""
    found = {"rbf": -9.0, "rbf learned": -5.0, "rbf learned learned": -7.0, "linear": -6.0, "linear learned": -8.0}
    monkeypatch.setattr(class_fit, "kinds_in_question", lambda model, bags: ("rbf", "linear"))
    monkeypatch.setattr(class_fit, "_firsts", lambda model, read, kinds: list(kinds))
    monkeypatch.setattr(
        class_fit, "guessed_classes", lambda kernel, bags, evidence, seed: Guessed(evidence, found.get(kernel, -20.0))
    )
    monkeypatch.setattr(class_fit, "LeftOut", Said)
    monkeypatch.setattr(class_fit, "_same_guesses", lambda one, other: False)
    monkeypatch.setattr(
        class_fit, "_search", lambda model, read, first, *, begin, one_stage: Learned(f"{begin} learned", None)
    )
    return found


def kept_kernel():
    bags, table, _, _ = problem(6)
    model = BagGP(evidence="candidates")
    model.seed_ = 0
    return class_fit._learned(model, read_classes(table, bags, keyed=True)).learned.features


def test_kernel_of_the_guesses_that_predict_sets_of_bags_left_out_best_is_kept(worth):
    """Also if a later kernel has the higher log evidence, which is that of other guesses."""
    assert kept_kernel() == "rbf learned"
    worth["linear"] = -4.0
    assert kept_kernel() == "linear"


def test_kernel_that_bags_left_out_speak_against_is_not_kept(worth, monkeypatch):
    worth |= {"linear": -4.0, "linear learned": -3.0, "rbf learned learned": -1.0}
    assert kept_kernel() == "linear learned"
    monkeypatch.setattr(Said, "against", dict.fromkeys(("linear", "linear learned", "rbf learned learned"), 2.0))
    assert kept_kernel() == "rbf learned learned"  # of the first kind, against which they must speak clearly
    monkeypatch.setattr(Said, "against", dict.fromkeys(worth, 4.0))
    assert kept_kernel() == "rbf"  # there is nothing to go back to behind the first


def test_one_class_per_bag_is_learned_with_evidence_class():
    bags, _, y, _ = problem()
    new, _, other, _ = problem(30, seed=1)
    model = BagGP(evidence="class", **FAST).fit(bags, y)
    assert model.score(new, other) > 0.9
    assert model.instance_classes_.tolist() == [0, 1, 2, 3]


def test_candidates_mix_with_labels_known_instances_and_silent_bags():
    bags, table, y, truth = problem()
    sets = [set(row.nonzero()[0].tolist()) for row in table]
    known = np.full(bags.n_instances, np.nan)
    sets[0], known[0] = {int(y[0])}, 1.0  # the first instance of a bag always shows its class
    known[truth == 3] = np.where(np.arange((truth == 3).sum()) % 9 == 0, 0.0, np.nan)
    empty = np.random.default_rng(5).normal(0, 0.6, (12, 2))
    more = Bags(np.concatenate([bags.X, empty]), np.concatenate([bags.index, 100 + np.arange(12) // 4]))
    more = more.with_known(np.concatenate([known, np.full(12, np.nan)]))
    y_all = Evidence.concat([Evidence.candidates(sets), label([0.0, 0.0, np.nan])])
    model = BagGP(**FAST).fit(more, y_all)
    assert model.classes_.tolist() == [0, 1, 2, 3]  # the last: none of them
    p = model.predict_proba(more)
    assert p.shape == (39, 4)
    assert (p[-3:].argmax(1) == 3).all()
    assert model.learned_from_known_
    new, _, other, _ = problem(30, seed=1)
    assert model.score(new, other) > 0.9


def test_kernel_is_learned_from_candidates():
    bags, table, y, _ = problem(15)
    fixed = BagGP(evidence="candidates", **FAST).fit(bags, table)
    learned = BagGP(evidence="candidates", n_inducing=6, random_state=0).fit(bags, table)
    assert learned.learning_trace_.converged
    assert learned.log_evidence_ > fixed.log_evidence_
    assert learned.score(bags, y) > 0.9


def test_mean_field_takes_over_where_sites_of_classes_do_not_settle(monkeypatch):
    def fails(*_, **__):
        raise NumericalError("they went round in circles")

    monkeypatch.setattr(class_engines, "_settled", fails)
    bags, table, y, _ = problem(24)
    with pytest.warns(ConvergenceWarning, match="mean-field answer is given instead"):
        model = BagGP(evidence="candidates", **FAST).fit(bags, table)
    assert model.inference_ == "vi"
    assert "went round in circles" in model.fallback_
    assert model.score(bags, y) > 0.8


def broad_problem():
    """Each bag excludes one class of four: from the prior all columns stay alike, from a guess they do not."""
    rng = np.random.default_rng(1)
    centres = 3.0 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    y = np.arange(80) % 4
    X = rng.normal(0, 0.5, (240, 2)) + np.where((np.arange(240) % 3 == 0)[:, None], centres[y.repeat(3)], 0.0)
    bags, table = Bags(X, np.repeat(np.arange(80), 3)), np.ones((80, 4), dtype=int)
    table[np.arange(80), (y + rng.integers(1, 4, 80)) % 4] = 0
    return bags, table, y


def test_broad_candidate_sets_are_told_apart_from_a_guess():
    bags, table, y = broad_problem()
    model = BagGP(evidence="candidates", **FAST).fit(bags, table)
    assert model.score(bags, y) > 0.9


def test_kernels_are_judged_by_guesses_where_bags_have_several_candidates(monkeypatch):
    bags, table, y = broad_problem()
    judged_by = []

    def search(model, told, features, **_):
        judged_by.append(told.evidence.table)
        return Learned(features, None)

    monkeypatch.setattr(class_fit, "_search", search)
    BagGP(evidence="candidates", n_inducing=20, random_state=0).fit(bags, table)
    assert len(judged_by) == 1  # the guesses of the same kernel are the same again
    assert (judged_by[-1].sum(1) == 1).all()
    assert np.mean(judged_by[-1].argmax(1) == y) > 0.9


def test_second_guesses_are_made_with_the_better_kind_of_kernel_only(monkeypatch):
    bags, table, _ = broad_problem()
    searched = []

    def search(model, told, features, **_):
        searched.append(type(features.kernel.base_kernel).__name__)
        return Learned(features, None)

    monkeypatch.setattr(class_fit, "_search", search)
    monkeypatch.setattr(class_fit, "kinds_in_question", lambda model, bags: ("linear", "rbf"))
    monkeypatch.setattr(class_fit, "_same_guesses", lambda one, other: False)
    BagGP(evidence="candidates", n_inducing=20, random_state=0).fit(bags, table)
    assert searched[:2] == ["LinearKernel", "RBFKernel"]
    assert len(searched) == 3


def test_all_kinds_of_kernel_are_judged_with_one_seed(monkeypatch):
    bags, table, _ = broad_problem()
    guess, seeds = class_fit.guessed_classes, []
    monkeypatch.setattr(class_fit, "kinds_in_question", lambda model, bags: ("rbf", "linear"))
    monkeypatch.setattr(class_fit, "guessed_classes", lambda *given: seeds.append(given[-1]) or guess(*given))
    model = BagGP(evidence="candidates", n_inducing=20, random_state=0).fit(bags, table)
    assert len(seeds) >= 4
    assert set(seeds) == {model.seed_}


@pytest.mark.filterwarnings("ignore::bagwise.exceptions.ConvergenceWarning")
def test_chains_of_classes_agree_with_the_sites():
    bags, table, _, _ = problem(18)
    new = problem(9, seed=3)[0]
    sites = BagGP(evidence="candidates", **FAST).fit(bags, table)
    chains = BagGP(evidence="candidates", inference="gibbs", n_samples=150, n_burn_in=50, n_chains=2, **FAST).fit(
        bags, table
    )
    assert np.abs(chains.predict_proba(new) - sites.predict_proba(new)).mean() < 0.08
    assert chains.chains_.labels == ("0", "1", "2")
    assert chains.predict_error(new).bags.shape == (9, 3)


def test_a_class_that_is_seen_once_and_a_hundred_classes_are_answered():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.arange(200) % 100
    model = BagGP(evidence="class", **(FAST | {"n_inducing": 5})).fit(Bags(X, np.arange(200)), y)
    assert model.predict_proba(Bags(X[:4], np.arange(4))).shape == (4, 100)
    bags, _, y, _ = problem(13)
    y[-1] = 7
    assert BagGP(evidence="class", **FAST).fit(bags, y).predict_proba(bags).shape == (13, 4)


def test_bags_with_every_class_as_candidate_leave_the_classes_of_others_as_they_are():
    bags, _, y, _ = problem()
    new = problem(12, seed=1)[0]
    y_one = [{int(one)} for one in y]
    broad = [one if number % 4 else {0, 1, 2} for number, one in enumerate(y_one)]
    kept = [one if number % 4 else None for number, one in enumerate(y_one)]
    answers = [BagGP(evidence="candidates", **FAST).fit(bags, sets).predict_proba(new) for sets in (broad, kept)]
    assert (answers[0].argmax(1) == answers[1].argmax(1)).all()
    assert np.abs(answers[0] - answers[1]).max() < 0.2


def test_a_class_that_was_missing_in_training_is_named_when_it_is_asked_for():
    bags, _, y, _ = problem(18)
    model = BagGP(evidence="class", **FAST).fit(bags[y < 2], NAMES[y[y < 2]])
    assert model.predict_proba(bags).shape == (18, 2)
    with pytest.raises(BagDataError, match=r"y holds 'cat'; the model was fitted with the classes"):
        model.score(bags, NAMES[y])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inference": "ep"}, "inference='ep' sends a message to every instance"),
        ({"label_noise": 0.1}, "label_noise=0.1: for labels only"),
    ],
)
def test_settings_that_classes_do_not_take_are_refused(changes, message):
    bags, table, _, _ = problem(6)
    with pytest.raises(BagDataError, match=message):
        BagGP(evidence="candidates", **(FAST | changes)).fit(bags, table)
