"""BagGP with one class out of many: answers, files, mixtures of evidence, chains, and input that is refused."""

import numpy as np
import pytest

import bagwise
from bagwise import BagGP, Bags, Evidence, label
from bagwise.exceptions import BagDataError, ConvergenceWarning, NumericalError
from bagwise.inference import class_engines
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.io import instance_table, part_table
from bagwise.models._base import class_fit

CENTRES = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -2.0]])
NAMES = np.array(["ant", "bee", "cat"])
FAST = {"learn": False, "n_inducing": 20, "random_state": 0}


def problem(n_bags=36, seed=0, size=4):
    """Bags of four: one or two instances near the centre of their class, the others near none."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 3
    shown = np.arange(n_bags * size) % size < 1 + rng.integers(0, 2, n_bags).repeat(size)
    truth = np.where(shown, y.repeat(size), 3)
    X = rng.normal(0, 0.6, (n_bags * size, 2)) + np.where(shown[:, None], CENTRES[y.repeat(size)], 0.0)
    false = (y + rng.integers(1, 3, n_bags)) % 3
    table = np.zeros((n_bags, 3), dtype=int)
    table[np.arange(n_bags), y] = 1
    table[np.arange(0, n_bags, 2), false[::2]] = 1
    return Bags(X, np.repeat(np.arange(n_bags), size)), table, y, truth


@pytest.fixture(scope="module")
def fitted():
    bags, table, _, _ = problem()
    sets = [set(NAMES[row == 1]) for row in table]
    return BagGP(evidence="candidates", **FAST).fit(bags, sets)


def test_classes_of_bags_and_instances_are_found_from_candidates(fitted):
    new, _, y, truth = problem(30, seed=1)
    p, q = fitted.predict_proba(new), fitted.predict_instance_proba(new)
    assert p.shape == (30, 3)
    assert q.shape == (120, 4)
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(q.sum(1), 1.0, atol=1e-12)
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.instance_classes_.tolist() == [*NAMES, "none of them"]
    assert fitted.score(new, NAMES[y]) > 0.9
    assert np.mean(q.argmax(1) == truth) > 0.85
    assert set(fitted.predict(new)) <= set(NAMES)
    assert fitted.inference_ == "bag-ep"
    assert isinstance(fitted.log_evidence_, float)


def test_given_candidates_settle_which_of_them_is_true(fitted):
    bags, table, y, truth = problem()
    sets = [set(NAMES[row == 1]) for row in table]
    p = fitted.predict_proba(bags, given=sets)
    assert (p[table == 0] == 0).all()
    assert np.mean(p.argmax(1) == y) > 0.9
    q = fitted.predict_instance_proba(bags, given=sets)
    np.testing.assert_allclose(q.sum(1), 1.0, atol=1e-9)
    assert (q[:, :3][(table == 0)[bags.index]] == 0).all()
    shows = np.add.reduceat(q[:, :3].sum(1), bags.offsets[:-1])
    assert (shows > 1.0 - 1e-9).all()  # at least one instance is expected to show the class
    assert np.mean(q.argmax(1) == truth) > 0.9


def test_answers_about_classes_do_not_depend_on_company(fitted):
    new = problem(12, seed=2)[0]
    alone, together = new[[5]], fitted.predict_proba(new)[[5]]
    np.testing.assert_allclose(fitted.predict_proba(alone), together, atol=1e-9)
    rows = slice(*new.offsets[5:7])
    np.testing.assert_allclose(
        fitted.predict_instance_proba(alone), fitted.predict_instance_proba(new)[rows], atol=1e-9
    )
    every = np.ones((12, 3))
    np.testing.assert_allclose(
        fitted.predict_instance_proba(alone, given=every[[5]]),
        fitted.predict_instance_proba(new, given=every)[rows],
        atol=1e-9,
    )


def test_a_model_of_classes_is_saved_and_loaded(fitted, tmp_path):
    new = problem(9, seed=3)[0]
    fitted.save(tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict_proba(new), fitted.predict_proba(new))
    np.testing.assert_array_equal(again.predict_instance_proba(new), fitted.predict_instance_proba(new))
    assert again.rule_ == fitted.rule_
    assert again.classes_.tolist() == fitted.classes_.tolist()
    assert again.log_evidence_ == fitted.log_evidence_


def test_counts_and_moments_have_a_column_for_every_class(fitted):
    new = problem(6, seed=4)[0]
    assert fitted.predict_count_proba(new, 1).shape == (6, 3)
    assert fitted.predict_fraction(new).mean.shape == (6, 3)
    assert fitted.mean_.shape == (3,)
    assert [part.shape for part in fitted.predict_latent(new)] == [(24, 3)] * 2


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


def test_kernels_are_judged_by_guesses_where_candidate_sets_are_broad(monkeypatch):
    bags, table, y = broad_problem()
    judged_by = []

    def search(model, told, features, **_):
        judged_by.append(told.evidence.table)
        return Learned(features, None)

    monkeypatch.setattr(class_fit, "_search", search)
    BagGP(evidence="candidates", n_inducing=20, random_state=0).fit(bags, table)
    assert len(judged_by) == class_fit.GUESSES
    assert (judged_by[-1].sum(1) == 1).all()
    assert np.mean(judged_by[-1].argmax(1) == y) > 0.9


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


def test_given_is_refused_where_it_means_nothing(fitted):
    bags, _, y, _ = problem(6)
    labels = BagGP(**FAST).fit(bags, y > 0)
    for ask in (labels.predict_proba, labels.predict_instance_proba):
        with pytest.raises(BagDataError, match="y holds '2'; the model was fitted with the classes 'False', 'True'"):
            ask(bags, given=y)
    with pytest.raises(BagDataError, match="may have none of the classes, but no bag of the fit could"):
        fitted.predict_proba(bags, given=[{"none of them"}] + [None] * 5)
    with pytest.raises(AttributeError, match="was not fitted to classes"):
        labels.instance_classes_  # noqa: B018


def test_a_model_of_classes_says_nothing_of_parts_and_is_told_in_tables_what_bags_state(fitted):
    bags, *_ = problem(6)
    stated = [{"ant"}, {"bee", "cat"}] + [None] * 4
    parts = Bags(bags.X, bags.index, part=np.arange(bags.n_instances))
    for ask in (fitted.predict_part_proba, fitted.predict_instance_spread):
        with pytest.raises(BagDataError, match="chooses one class out of many; it cannot say how"):
            ask(parts)
    with pytest.raises(BagDataError, match="no answers about parts"):
        part_table(fitted, parts)
    table, expected = instance_table(fitted, bags, given=stated), fitted.predict_instance_proba(bags, given=stated)
    columns = [f"probability_{name}" for name in fitted.instance_classes_]
    np.testing.assert_array_equal(table[columns], expected[np.argsort(bags.rows)])


def test_a_model_of_classes_can_be_fitted_to_labels_again(fitted):
    bags, _, y, _ = problem(12)
    model = BagGP(evidence="class", **FAST).fit(bags, y)
    model.set_params(evidence="label").fit(bags, y > 0)
    assert model.predict_proba(bags).shape == (12, 2)
    assert class_fit.CLASS_KINDS == ("candidates", "class")
