"""Estimators fitted by Gibbs sampling: answers, errors, diagnostics, going on, files."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bagwise
from bagwise import BagDataError, BagGP, Bags, ConvergenceWarning, GroupKernelMachine, MILGPProbit
from bagwise.active import suggest
from bagwise.bag_models.rules import AtLeastOne
from bagwise.datasets import make_bags
from bagwise.evidence.statements import count
from bagwise.exceptions import ModelFileError
from bagwise.gp import features
from bagwise.gp.posterior import SamplePosterior
from bagwise.inference.chains import run as sampling
from bagwise.plots import TraceDisplay
from bagwise.testing import CHECKS

pytestmark = pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning")

SMALL = {"inference": "gibbs", "n_inducing": 8, "n_samples": 30, "n_burn_in": 10, "n_chains": 2, "random_state": 0}
FIXED = {**SMALL, "learn": False}


def problem(n_bags=20, seed=0):
    bags, y, instance_y = make_bags(n_bags, (1, 6), random_state=seed)
    return bags, y, instance_y


def small(**changes):
    return MILGPProbit(**SMALL | changes)


QUICK = [check for check in CHECKS if check.__name__ != "check_files"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check):
    check(small())


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "model", [small(scheme="single-site", noise="published"), BagGP(**FIXED)], ids=["published", "BagGP"]
)
def test_contract_of_variants(check, model):
    check(model)


# ---------------------------------------------------------------- answers


def test_it_agrees_with_the_mean_field_where_that_is_good():
    bags, y, _ = problem(40)
    settings = {"n_inducing": 15, "bias": 5.0, "random_state": 0}
    sampled = MILGPProbit("gibbs", n_samples=150, n_burn_in=150, n_chains=20, **settings).fit(bags, y)
    approximate = MILGPProbit("vi", max_iter=None, **settings).fit(bags, y)
    difference = sampled.predict_instance_proba(bags) - approximate.predict_instance_proba(bags)
    assert np.abs(difference).mean() < 0.06
    assert abs(sampled.mean_ - approximate.mean_) < 0.6


def test_block_and_single_site_agree_within_their_errors():
    bags, y, _ = problem(16)
    block = small(n_chains=40, n_samples=150, n_burn_in=100).fit(bags, y)
    single = small(n_chains=40, n_samples=150, n_burn_in=100, scheme="single-site", random_state=0).fit(bags, y)
    for answer in ("predict_instance_proba", "predict_proba"):
        found, expected = (getattr(model, answer)(bags)[:, 1] for model in (block, single))
        part = "instances" if answer == "predict_instance_proba" else "bags"
        error = np.hypot(getattr(block.predict_error(bags), part), getattr(single.predict_error(bags), part))
        assert (np.abs(found - expected) < 5 * error).all()


def test_errors_are_the_spread_over_seeds():
    bags, y, _ = problem(12)
    runs = [
        small(n_samples=120, n_burn_in=60, n_chains=8, inducing=bags.X[:8]).set_params(random_state=s).fit(bags, y)
        for s in range(6)
    ]
    spread = np.std([model.predict_instance_proba(bags)[:, 1] for model in runs], axis=0, ddof=1)
    claimed = np.mean([model.predict_error(bags).instances for model in runs], axis=0)
    assert 0.6 < np.sqrt((spread**2).mean() / (claimed**2).mean()) < 1.7
    spread = np.std([model.predict_proba(bags)[:, 1] for model in runs], axis=0, ddof=1)
    claimed = np.mean([model.predict_error(bags).bags for model in runs], axis=0)
    assert 0.6 < np.sqrt((spread**2).mean() / (claimed**2).mean()) < 1.7


def test_errors_have_the_shape_of_the_answers():
    bags, y, _ = problem()
    one = small().fit(bags, y).predict_error(bags)
    assert one.bags.shape == (len(bags),)
    assert one.instances.shape == (bags.n_instances,)
    several = small().fit(bags, np.column_stack([y, 1 - y])).predict_error(bags)
    assert several.bags.shape == (len(bags), 2)
    assert several.instances.shape == (bags.n_instances, 2)


def test_moments_and_probability_are_those_of_the_mixture():
    bags, y, _ = problem()
    model = small().fit(bags, y)
    model.rule_ = AtLeastOne(shares=False)
    posterior = model.posterior_
    assert isinstance(posterior, SamplePosterior)
    phi, kappa = model.features_.transform(bags)
    w = posterior.means[0].reshape(-1, phi.shape[1]).numpy()
    inverse = np.linalg.inv(posterior.factors[0].numpy() @ posterior.factors[0].numpy().T)
    within = np.einsum("nr,rs,ns->n", phi, inverse, phi) + kappa
    centres = w @ phi.T
    mean, variance = model.predict_latent(bags)
    np.testing.assert_allclose(mean, centres.mean(0), atol=1e-10)
    np.testing.assert_allclose(variance, centres.var(0) + within, atol=1e-10)
    expected = norm.cdf(centres / np.sqrt(1.0 + within)).mean(0)
    p = model.predict_instance_proba(bags)[:, 1]
    np.testing.assert_allclose(p, expected, atol=1e-10)
    v = posterior.weights[0].reshape(-1, phi.shape[1]).numpy()
    negative = norm.logcdf(-(v @ phi.T) / np.sqrt(1.0 + kappa))
    none = np.add.reduceat(negative, bags.offsets[:-1], axis=1)
    least, most = (combine.reduceat(p, bags.offsets[:-1]) for combine in (np.maximum, np.add))
    expected = (1.0 - np.exp(none).mean(0)).clip(least, most)
    np.testing.assert_allclose(model.predict_proba(bags)[:, 1], expected, atol=1e-10)


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


def test_diagnostics_hold_the_promised_quantities():
    bags, y, _ = problem(40)
    model = small(bias=5.0).fit(bags, y)
    names = list(model.diagnostics_.index)
    assert names[:3] == ["log_likelihood", "norm_v", "mean"]
    assert len(names) == 53
    assert model.diagnostics_.loc["mean", "mean"] == pytest.approx(model.mean_, abs=1.0)
    assert not model.converged_
    row = int(names[3].removeprefix("latent[").removesuffix("]"))
    phi, _ = model.features_.transform(bags)
    v = model.posterior_.weights[0, 1, 4].numpy()
    assert model.chains_.values[0, 3, 1, 4] == pytest.approx(phi[row] @ v)


@pytest.mark.filterwarnings("default::bagwise.ConvergenceWarning")
def test_a_chain_that_has_not_converged_says_so_where_fit_was_called():
    bags, y, _ = problem()
    with pytest.warns(ConvergenceWarning, match="the chains have not mixed: .* has R-hat") as caught:
        small().fit(bags, y)
    assert [w.filename for w in caught if w.category is ConvergenceWarning] == [__file__]


@pytest.mark.filterwarnings("error::bagwise.ConvergenceWarning")
def test_long_chains_on_an_easy_problem_say_nothing():
    bags = Bags(np.array([[-1.0], [1.0], [-0.9], [1.1]]), [0, 1, 2, 3])
    model = small(n_samples=1500, n_burn_in=100, n_chains=4).fit(bags, [0, 1, 0, 1])
    assert model.converged_
    assert model.trace_.name == "log likelihood"
    assert len(model.trace_) == model.n_iter_ == 1600


needs_arviz = pytest.mark.skipif(find_spec("arviz") is None, reason="needs ArviZ")


@needs_arviz
def test_to_arviz_holds_the_chains():
    bags, y, _ = problem()
    data = small(bias=0.0).fit(bags, y).to_arviz()
    assert data.posterior["norm_v"].shape == (2, 30)
    assert data.posterior_weights["v"].shape == (2, 30, 8)


@needs_arviz
def test_to_arviz_has_label_columns_last():
    bags, y, _ = problem()
    model = small(n_chains=3).fit(bags, np.column_stack([y, 1 - y]))
    found = model.to_arviz().posterior_weights["v"].values
    np.testing.assert_array_equal(found, np.moveaxis(model.posterior_.weights.numpy(), 0, -1))
    assert found.shape[0] == 3
    assert found.shape[-1] == 2


@needs_arviz
def test_to_arviz_says_nothing_where_arviz_is_imported_for_the_first_time(tmp_path):
    call = "for_arviz({'posterior': {'v': numpy.ones((2, 9))}})"
    code = f"import numpy; from bagwise.models._base.chain_answers import for_arviz; {call}"
    home = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", code],
        env=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_model_that_was_not_sampled_has_no_chains():
    bags, y, _ = problem()
    model = small().fit(bags, y).set_params(inference="vi").fit(bags, y)
    assert not hasattr(model, "diagnostics_")
    with pytest.raises(AttributeError, match="was not fitted with inference='gibbs'"):
        model.predict_error(bags)


def test_the_trace_plot_shows_every_chain():
    bags, y, _ = problem()
    model = small().fit(bags, y)
    display = TraceDisplay.from_estimator(model, quantity="norm_v")
    assert display.values.shape == (2, 30)
    assert len(display.ax_.lines) == 3
    assert "not mixed" in display.ax_.get_legend().get_texts()[0].get_text()
    with pytest.raises(BagDataError, match="quantity='nothing': the chains hold log_likelihood"):
        TraceDisplay.from_estimator(model, quantity="nothing")


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


def test_a_loaded_sampler_has_its_chains(tmp_path):
    bags, y, _ = problem()
    model = small().fit(bags, np.column_stack([y, 1 - y]))
    model.save(tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m")
    assert isinstance(loaded.posterior_, SamplePosterior)
    np.testing.assert_array_equal(loaded.predict_instance_proba(bags), model.predict_instance_proba(bags))
    assert loaded.diagnostics_.equals(model.diagnostics_)
    np.testing.assert_array_equal(loaded.predict_error(bags).bags, model.predict_error(bags).bags)
    assert loaded.log_evidence_ is None


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference": "mcmc"}, "inference"),
        ({"noise": "loud"}, "noise"),
        ({"scheme": "blocks"}, "scheme"),
        ({"n_chains": 0}, "n_chains"),
        ({"n_samples": 0}, "n_samples"),
        ({"n_burn_in": -1}, "n_burn_in"),
        ({"warm_start": "yes"}, "warm_start"),
        ({"scale_step": 2}, "scale_step"),
        ({"checkpoint": 5}, "checkpoint"),
        ({"checkpoint": "x", "scheme": "single-site"}, "single-site"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings, message):
    bags, y, _ = problem(4)
    with pytest.raises(BagDataError, match=message):
        small(**settings).fit(bags, y)


def test_single_precision_and_clones():
    bags, y, _ = problem()
    model = small(dtype="float32").fit(bags, y)
    assert np.abs(model.predict_instance_proba(bags) - small().fit(bags, y).predict_instance_proba(bags)).max() < 0.3
    assert not hasattr(clone(model), "chains_")


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
