"""Estimators fitted by Gibbs sampling: answers, errors, diagnostics, going on, files."""

import os

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.models.sampled import SMALL, problem, small

from bagwise import BagDataError, BagGP, ConvergenceWarning, GroupKernelMachine
from bagwise.active import suggest
from bagwise.evidence.statements import count
from bagwise.exceptions import ModelFileError
from bagwise.gp import features
from bagwise.inference.chains import run as sampling
from bagwise.testing import CHECKS

pytestmark = pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning")
FIXED = {**SMALL, "learn": False}
QUICK = [check for check in CHECKS if check.__name__ != "check_files"]


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "model", [small(scheme="single-site", noise="published"), BagGP(**FIXED)], ids=["published", "BagGP"]
)
def test_variants_of_samplers_keep_the_contract(check, model):
    check(model)


# ---------------------------------------------------------------- answers


def test_chunks_of_rows_do_not_matter(monkeypatch):
    bags, y, _ = problem()
    whole = small(inducing=bags.X[:8]).fit(bags, y)
    monkeypatch.setattr(features, "CHUNK_ROWS", 16)
    assert len(list(whole.features_.designs(bags))) > 3
    cut = small(inducing=bags.X[:8]).fit(bags, y)
    np.testing.assert_allclose(cut.chains_.values, whole.chains_.values, atol=1e-8)


def test_only_n_samples_over_the_limit_are_thinned(monkeypatch):
    monkeypatch.setattr(sampling, "KEPT_DRAWS", 20)
    bags, y, _ = problem(8)
    model = small(n_samples=35, n_chains=2).fit(bags, y)
    assert model.posterior_.weights.shape[1:3] == (2, 9)  # every fourth of 35
    assert len(model.chains_) == 35


# ---------------------------------------------------------------- diagnostics


@pytest.mark.filterwarnings("default::bagwise.ConvergenceWarning")
def test_a_chain_that_has_not_converged_says_so_where_fit_was_called():
    bags, y, _ = problem()
    with pytest.warns(ConvergenceWarning, match="the chains have not mixed: .* has R-hat") as caught:
        small().fit(bags, y)
    assert [w.filename for w in caught if w.category is ConvergenceWarning] == [__file__]


# ---------------------------------------------------------------- going on


def same_chains(first, second):
    np.testing.assert_array_equal(first.chains_.values, second.chains_.values)
    np.testing.assert_array_equal(first.posterior_.weights, second.posterior_.weights)
    np.testing.assert_array_equal(first.posterior_.means, second.posterior_.means)
    np.testing.assert_array_equal(first.trace_.values, second.trace_.values)


def interrupt_at(sweep):
    def callback(number, value):
        if number == sweep:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("at", [4, 10, 11, 25])
def test_interruption_keeps_the_draws_and_warm_start_goes_on(at):
    bags, y, _ = problem()
    whole = small().fit(bags, y)
    model = small(warm_start=True, callback=interrupt_at(at))
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(bags, y)
    if at > 10:
        assert len(model.chains_) == at - 10
        assert model.predict_proba(bags).shape == (len(bags), 2)
        assert not model.converged_
    else:
        with pytest.raises(NotFittedError):
            model.predict(bags)
    same_chains(model.set_params(callback=None).fit(bags, y), whole)


def test_an_interrupted_burn_in_leaves_no_old_answers():
    bags, y, _ = problem()
    model = small().fit(bags, y).set_params(callback=interrupt_at(3))
    with pytest.raises(KeyboardInterrupt, match="there are no draws yet"):
        model.fit(bags, 1 - y)
    with pytest.raises(NotFittedError):
        model.predict(bags)


def test_warm_start_adds_samples():
    bags, y, _ = problem()
    model = small(warm_start=True).fit(bags, y)
    same_chains(model.set_params(n_samples=50).fit(bags, y), small(n_samples=50).fit(bags, y))
    same_chains(model.fit(bags, y), model)  # nothing left to do


def test_warm_start_refuses_other_data():
    bags, y, _ = problem()
    model = small(warm_start=True).fit(bags, y)
    with pytest.raises(BagDataError, match="warm_start=True goes on with the chains of the last fit"):
        model.fit(bags, 1 - y)
    with pytest.raises(BagDataError, match="only n_samples may"):
        model.set_params(n_chains=3).fit(bags, y)
    model.set_params(warm_start=False).fit(bags, 1 - y)


def test_a_checkpoint_goes_on_as_if_it_had_never_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "CHECKPOINT_EVERY", 7)
    bags, y, _ = problem()
    whole = small().fit(bags, y)
    for at in (5, 12, 30):
        path = tmp_path / f"{at}.safetensors"
        with pytest.raises(KeyboardInterrupt):
            small(checkpoint=path, callback=interrupt_at(at)).fit(bags, y)
        assert path.exists()
        same_chains(small(checkpoint=path).fit(bags, y), whole)
    same_chains(small(checkpoint=str(path)).fit(bags, y), whole)  # a finished one is only read


def test_a_process_that_was_killed_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "CHECKPOINT_EVERY", 7)
    bags, y, _ = problem()

    def killed(number, value):
        if number == 25:
            raise SystemExit

    with pytest.raises(SystemExit):
        small(checkpoint=tmp_path / "c", callback=killed).fit(bags, y)
    same_chains(small(checkpoint=tmp_path / "c").fit(bags, y), small().fit(bags, y))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    bags, y, _ = problem()
    small(checkpoint=tmp_path / "c").fit(bags, y)
    for changed in (small(random_state=1), small(n_chains=3), small(noise="published")):
        with pytest.raises(BagDataError, match="belongs to another run"):
            changed.set_params(checkpoint=tmp_path / "c").fit(bags, y)
    with pytest.raises(BagDataError, match="belongs to another run"):
        small(checkpoint=tmp_path / "c").fit(bags, 1 - y)
    (tmp_path / "d").write_bytes(b"nonsense")
    with pytest.raises(ModelFileError, match="not a readable model file"):
        small(checkpoint=tmp_path / "d").fit(bags, y)


# ---------------------------------------------------------------- files and settings


@pytest.mark.parametrize(
    "model", [small(), BagGP(**SMALL), GroupKernelMachine("label")], ids=lambda it: type(it).__name__
)
def test_checkpoint_that_cannot_be_written_is_found_before_any_work(tmp_path, model):
    bags, y, _ = problem()
    calls = []
    for path, message in [
        (tmp_path / "no" / "x", "there is no folder"),
        (tmp_path, "is a folder"),
        (os.devnull, "checkpoint='/dev/null': expected the name of a file"),
        ("/proc/x", "cannot be written"),
    ]:
        watched = clone(model).set_params(checkpoint=path, callback=lambda *said: calls.append(said))
        with pytest.raises((OSError, BagDataError), match=message):
            watched.fit(bags, y)
        assert not hasattr(watched, "features_")
    assert calls == []


# ---------------------------------------------------------------- BagGP


@pytest.mark.parametrize("kind", ["count", "fraction", "mixed"])
def test_counts_are_sampled(kind):
    """Instances known to be half positive, bag by bag, and a few known one by one: the answers show it."""
    bags, _, instance_y = problem(16)
    k = np.add.reduceat(instance_y, bags.offsets[:-1])
    known = np.full(bags.n_instances, np.nan)
    known[::9] = instance_y[::9]
    y = {"count": np.column_stack([k, k]), "fraction": k / bags.sizes, "mixed": count(k, bags.sizes)}[kind]
    given = bags.with_known(known) if kind == "mixed" else bags
    settings = {"n_inducing": 15, "random_state": 0, "learn": False, "lengthscale": 1.0}
    evidence = "label" if kind == "mixed" else kind
    sampled = BagGP(evidence, inference="gibbs", n_samples=60, n_burn_in=40, n_chains=10, **settings).fit(given, y)
    approximate = BagGP(evidence, inference="vi", **settings).fit(given, y)
    found, expected = (model.predict_instance_proba(bags)[:, 1] for model in (sampled, approximate))
    assert np.abs(found - expected).mean() < 0.05
    assert sampled.inference_ == "gibbs"
    assert sampled.log_evidence_ is None
    law = sampled.predict_count_proba(bags, 1)
    np.testing.assert_allclose(law.ravel(), sampled.predict_proba(bags)[:, 1], atol=0.03)  # 512 of all the draws
    assert (sampled.predict_fraction(bags).lower <= sampled.predict_fraction(bags).upper).all()


def test_warm_start_keeps_the_learned_kernel():
    bags, y, _ = problem()
    settings = SMALL | {"learn": True}
    model = BagGP(**settings, warm_start=True).fit(bags, y)
    kernel = model.kernel_
    model.set_params(n_samples=40).fit(bags, y)
    assert model.kernel_ is kernel
    same_chains(model, BagGP(**settings | {"n_samples": 40}).fit(bags, y))


def test_other_inferences_forget_the_chains():
    bags, y, _ = problem()
    model = BagGP(**FIXED).fit(bags, y)
    assert len(model.diagnostics_) == 3 + min(50, bags.n_instances)
    model.set_params(inference="ep").fit(bags, y)
    assert not hasattr(model, "diagnostics_")


def test_what_to_label_next_can_be_asked_of_chains():
    bags, y, _ = problem()
    model = BagGP(**FIXED).fit(bags, y)
    assert len(suggest(model, bags, n=3)) == 3
