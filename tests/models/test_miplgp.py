"""MIPLGP as an estimator: what it chooses, reports, keeps and refuses."""

import warnings

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from tests.models.candidate_problems import problem, quick

import bagwise
from bagwise import MIPLGP, BagDataError, Bags, ModelFileError
from bagwise.bag_models.dirichlet import augmented
from bagwise.datasets import make_candidate_bags
from bagwise.inference.candidates import memory


@pytest.mark.parametrize("solver", ["exact", "sparse"])
@pytest.mark.parametrize("rule", ["dirichlet", "consistent"])
def test_classes_of_bags_and_instances_are_found(solver, rule):
    bags, table, _, _ = problem()
    new, _, y, instance_y = problem(seed=1)
    model = quick(solver=solver, disambiguation=rule, n_inducing=60).fit(bags, table)
    assert model.solver_ == solver
    assert model.score(new, y) > 0.9
    assert np.mean(model.predict_instances(new) == instance_y) > 0.85


def test_left_to_itself_the_published_rule_calls_every_instance_none_of_them():
    bags, table, y, instance_y = problem()
    kept, letter = (quick(disambiguation="dirichlet", n_rounds=40, at_least_one=each) for each in (True, False))
    kept.fit(bags, table)
    letter.fit(bags, table)
    found = [np.mean((model.predict_instances(bags) == instance_y)[instance_y < 3]) for model in (kept, letter)]
    assert found[1] < 0.1
    assert found[0] > 0.5
    assert kept.score(bags, y) >= letter.score(bags, y)


def test_relevance_of_a_feature_that_says_nothing():
    bags, table, _, _ = problem(60)
    noise = np.random.default_rng(0).normal(size=(bags.n_instances, 1))
    wide = Bags(np.column_stack([bags.X, noise]), bags.index)
    model = quick(disambiguation="consistent", ard=True, n_rounds=40, solver="sparse", n_inducing=60).fit(wide, table)
    assert model.relevance_[2] < 0.5 * model.relevance_[:2].min()


def test_sparse_reports_its_evidence_and_exact_has_none():
    bags, table, _, _ = problem()
    assert np.isfinite(quick(solver="sparse").fit(bags, table).log_evidence_)
    assert quick(solver="exact").fit(bags, table).log_evidence_ is None


def test_constants_follow_how_often_a_class_is_a_candidate():
    bags, table, _, _ = problem()
    table[:, 0] = 1
    flat = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    flat.outputscale = 1e-9
    alpha = np.where(augmented(table == 1, True), 1.0 / (table.sum(axis=1, keepdims=True) + 1), 0.0) + 1e-4
    noise = np.log1p(1 / alpha)
    pull, weight = 6 * ((np.log(alpha) - noise / 2) / noise).sum(axis=0), 6 * (1 / noise).sum(axis=0)
    for solver in ("exact", "sparse"):
        model = quick(disambiguation="uniform", solver=solver, kernel=flat, learn=False, bias=3.0).fit(bags, table)
        np.testing.assert_allclose(model.mean_, 9 * pull / (1 + 9 * weight), rtol=1e-5)
    assert (quick(bias=0.0).fit(bags, table).mean_ == 0).all()


def test_without_augmentation_no_instance_is_none_of_them():
    bags, table, y, _ = problem()
    model = quick(disambiguation="dirichlet", augment=False).fit(bags, table)
    assert (model.predict_instance_proba(bags)[:, -1] == 0).all()
    assert model.predict_latent(bags)[0].shape == (bags.n_instances, 3)
    assert set(model.predict_instances(bags)) <= {0, 1, 2}
    assert model.score(bags, y) > 0.5


def test_bag_classes_of_the_consistent_model_are_its_posterior():
    """w ∝ Π_i (θ_ic + θ_i,none) − Π_i θ_i,none, written out."""
    bags, table, _, _ = problem(9)
    model = quick(disambiguation="consistent").fit(bags, table)
    theta = model.predict_instance_proba(bags)
    for bag in range(3):
        own = theta[bags.index == bag]
        w = np.prod(own[:, :3] + own[:, 3:], axis=0) - np.prod(own[:, 3])
        np.testing.assert_allclose(model.predict_proba(bags[bag])[0], w / w.sum(), atol=1e-9)


# ---------------------------------------------------------------- which solver, which machine


def test_auto_is_exact_for_few_instances_and_sparse_for_many(monkeypatch):
    bags, table, _, _ = problem()
    assert quick().fit(bags, table).solver_ == "exact"
    monkeypatch.setitem(memory.LARGEST_EXACT, "cpu", 100)
    assert quick(n_inducing=20).fit(bags, table).solver_ == "sparse"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("solver", ["auto", "exact", "sparse"])
def test_asking_for_a_device_that_is_not_there_is_a_clear_error(solver):
    bags, table, _, _ = problem(9)
    with pytest.raises(BagDataError, match="no usable CUDA device; use device='cpu'"):
        quick(device="cuda", solver=solver).fit(bags, table)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_the_device_changes_nothing(solver, dtype):
    bags, table, _, _ = problem()
    answers = [
        quick(solver=solver, dtype=dtype, device=device).fit(bags, table).predict_instance_proba(bags)
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(*answers, atol=1e-6 if dtype == "float64" else 2e-2)


@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_single_precision_answers_almost_the_same(solver):
    bags, table, _, _ = problem()
    answers = [
        quick(solver=solver, dtype=dtype).fit(bags, table).predict_instance_proba(bags)
        for dtype in ("float64", "float32")
    ]
    np.testing.assert_allclose(*answers, atol=0.02)


# ---------------------------------------------------------------- manners


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"disambiguation": "prior-mean", "bias": 0.0}, "goes by the constants of the classes"),
        ({"disambiguation": "random"}, "disambiguation='random': expected one of"),
        ({"solver": "dense"}, "solver='dense': expected one of"),
        ({"approximation": "dtc"}, "approximation='dtc'"),
        ({"alpha_eps": 0.0}, "alpha_eps=0.0: expected a positive number"),
        ({"alpha_eps": 1.0}, "alpha_eps=1.0: .*below 1"),
        ({"n_rounds": 0}, "n_rounds=0"),
        ({"n_steps": 1.5}, "n_steps=1.5"),
        ({"rank": 0}, "rank=0"),
        ({"n_probes": -1}, "n_probes=-1"),
        ({"variance_steps": -1}, "variance_steps=-1"),
        ({"augment": "yes"}, "augment='yes'"),
        ({"at_least_one": 1}, "at_least_one=1"),
        ({"disambiguation": "consistent", "augment": False}, "needs the class .none of them.*augment=True"),
        ({"bias": -1.0}, "bias=-1.0"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"kernel": "cubic"}, "kernel='cubic'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    bags, table, _, _ = problem(9)
    with pytest.raises(BagDataError, match=message):
        quick(**settings).fit(bags, table)


def test_scikit_learn_searches_over_bags():
    bags, table, y, _ = problem()
    search = GridSearchCV(quick(n_rounds=4), {"disambiguation": ["uniform", "consistent"]}, cv=3)
    search.fit(bags, table)
    assert set(search.cv_results_["param_disambiguation"]) == {"uniform", "consistent"}
    assert search.best_score_ > 0.9  # share of held-out bags whose predicted class is a candidate
    assert cross_val_score(quick(n_rounds=4), bags, y, cv=3).mean() > 0.8


def test_interruption_keeps_what_there_was():
    bags, table, y, _ = problem()

    def stop(iteration, value):
        if iteration == 4:
            raise KeyboardInterrupt

    model = quick(callback=stop)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 4 iterations"):
        model.fit(bags, table)
    assert model.trace_.interrupted
    assert model.score(bags, y) > 0.5


def test_progress_is_shown_when_asked_for(capsys):
    bags, table, _, _ = problem(9)
    quick(verbose=1, n_rounds=3, tol=0.0).fit(bags, table)
    shown = capsys.readouterr().err
    assert "MIPLGP" in shown
    assert "change of the responsibilities" in shown


@pytest.mark.parametrize("solver", ["exact", "sparse"])
def test_a_loaded_model_answers_bit_for_bit(solver, tmp_path):
    bags, table, _, _ = problem()
    sets = [{("ant", "bee", "cat")[k] for k in np.flatnonzero(row)} for row in table]
    model = quick(solver=solver, disambiguation="consistent", dtype="float32").fit(bags, sets)
    model.save(tmp_path / "model.safetensors")
    loaded = bagwise.load(tmp_path / "model.safetensors")
    assert loaded.classes_.tolist() == ["ant", "bee", "cat"]
    assert loaded.instance_classes_.tolist() == model.instance_classes_.tolist()
    assert loaded.solver_ == solver
    for what in ("predict_proba", "predict_instance_proba"):
        np.testing.assert_array_equal(getattr(loaded, what)(bags), getattr(model, what)(bags))
    assert clone(loaded).get_params()["disambiguation"] == "consistent"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("posterior.noise", lambda part: -part),
        ("posterior.weights", lambda part: part[:-1].clone()),
        ("posterior.inputs", lambda part: part * torch.nan),
    ],
)
def test_a_damaged_file_is_refused(name, change, tmp_path):
    from bagwise.persistence import read_model, write_model

    bags, table, _, _ = problem(9)
    path = tmp_path / "model.safetensors"
    quick(solver="exact", n_rounds=2).fit(bags, table).save(path)
    description, tensors = read_model(path)
    write_model(path, description, tensors | {name: change(tensors[name])})
    with pytest.raises(ModelFileError, match="damaged"):
        bagwise.load(path)


# ---------------------------------------------------------------- against each other


@pytest.mark.statistical
def test_bags_as_a_whole_find_more_instances_than_one_by_one():
    """Digits, five draws: "consistent" tells more instances rightly than the published rule, bags not worse."""
    rows = []
    for seed in range(5):
        made = make_candidate_bags(n_bags=140, bag_size=(6, 10), n_false=2, random_state=seed)
        train, test = np.arange(90), np.arange(90, 140)
        truth = made.instance_y[np.isin(made.bags.index, test)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            models = [
                MIPLGP(rule, at_least_one=kept, random_state=0).fit(made.bags[train], made.candidates[train])
                for rule, kept in (("consistent", True), ("dirichlet", True), ("dirichlet", False))
            ]
        rows.append(
            [
                (model.score(made.bags[test], made.y[test]), np.mean(model.predict_instances(made.bags[test]) == truth))
                for model in models
            ]
        )
    (bags, instances), (bags_kept, instances_kept), (bags_letter, instances_letter) = np.mean(rows, axis=0)
    print(np.mean(rows, axis=0))
    assert instances > max(instances_letter, instances_kept)
    assert bags > bags_letter
    assert bags >= bags_kept - 0.02
