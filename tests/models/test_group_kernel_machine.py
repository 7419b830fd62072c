"""GroupKernelMachine: what it learns, what it takes, what can be read off it, files.

Chains that choose between kernels part ways after a difference in the last digit: another processor runs other chains.
Where a test judges what they learn, it averages over so many of them that its threshold is about five standard
deviations away. The comment beside a threshold gives mean ± standard deviation over 16 values of ``random_state``.
"""

import gpytorch
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

import bagwise
from bagwise import BagDataError, BagDataWarning, BagGP, Bags, ConvergenceWarning, Evidence, GroupKernelMachine
from bagwise.cli.app import app
from bagwise.datasets import make_groups
from bagwise.exceptions import ModelFileError, NumericalError
from bagwise.gp.posterior import SparseSamplePosterior
from bagwise.models import group_kernel_machine as module
from bagwise.models._base.state import pack, unpack

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:bagwise.ConvergenceWarning")

SHORT = {"n_chains": 2, "n_samples": 40, "n_burn_in": 20, "n_moves": 10, "random_state": 0}


def short(**changes):
    return GroupKernelMachine(**SHORT | changes)


@pytest.fixture(scope="module")
def groups():
    return make_groups([12, 9, 10, 8, 11, 10], [9, 2, 7, 0, 5, 10], boundary="wave", random_state=0)


@pytest.fixture(scope="module")
def fitted(groups):
    with pytest.warns(ConvergenceWarning):
        return short(lengthscale=1.0).fit(groups[0], groups[1])


# ---------------------------------------------------------------- answers


def test_it_learns_individuals_from_three_fractions():
    """Figure 2 of the paper, in small."""
    bags, fractions, truth = make_groups([19, 16, 20], [14, 4, 17], boundary="wave", random_state=1)
    model = GroupKernelMachine(lengthscale=1.0, n_samples=100, n_burn_in=100, n_chains=24, random_state=0)
    found = roc_auc_score(truth, model.fit(bags, fractions).predict_instance_proba(bags)[:, 1])
    assert found > 0.83  # 0.924 ± 0.017; calling everyone what the group is gives 0.774
    assert 2 < model.n_active_ < 30  # 9.1 ± 0.7


def test_fractions_say_more_than_labels():
    bags, fractions, truth = make_groups(random_state=3)
    settings = {"lengthscale": 1.0, "standardize": False, "n_samples": 75, "n_burn_in": 75, "n_chains": 8}
    by_fraction = short(**settings).fit(bags, fractions)
    by_label = short(evidence="label", **settings).fit(bags, (fractions > 0).astype(int))
    p, p_by_label = (model.predict_instance_proba(bags)[:, 1] for model in (by_fraction, by_label))
    assert log_loss(truth, p) < log_loss(truth, p_by_label)  # 0.170 ± 0.005 and 0.212 ± 0.007
    assert roc_auc_score(truth, p) > 0.85  # 0.897 ± 0.006


def test_probabilities_are_averages_over_the_draws(fitted, groups):
    psi, kappa = fitted.features_.transform(groups[0])
    assert not kappa.any()
    weights = fitted.posterior_.weights[0].reshape(-1, psi.shape[1]).numpy()
    f = psi @ weights.T
    np.testing.assert_allclose(fitted.predict_instance_proba(groups[0])[:, 1], norm.cdf(f).mean(1), atol=1e-12)
    none = np.exp(np.add.reduceat(norm.logcdf(-f), groups[0].offsets[:-1]))
    np.testing.assert_allclose(fitted.predict_proba(groups[0])[:, 1], 1.0 - none.mean(1), atol=1e-12)
    mean, variance = fitted.predict_latent(groups[0])
    np.testing.assert_allclose(variance, f.var(1), atol=1e-9)
    spread = f.std(1) / np.sqrt(10)
    assert (np.abs(mean - f.mean(1)) < 5 * spread).all()


def test_features_are_the_columns_of_the_kernel(fitted, groups):
    psi, _ = fitted.features_.transform(groups[0])
    X = (groups[0].X - groups[0].X.mean(0)) / groups[0].X.std(0)
    expected = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    np.testing.assert_allclose(psi, expected, atol=1e-9)
    np.testing.assert_allclose(fitted.centres_, groups[0].X, atol=1e-9)


def test_what_is_active_can_be_read(fitted):
    weights = fitted.posterior_.weights
    np.testing.assert_allclose(fitted.inclusion_, (weights[0] != 0).double().mean((0, 1)))
    assert fitted.n_active_ == pytest.approx(float((weights != 0).sum(-1).double().mean()))
    watched = fitted.chains_.values[0, fitted.chains_.names.index("n_active")]
    assert watched.mean() == pytest.approx(fitted.n_active_)
    assert fitted.diagnostics_.loc["n_active", "mean"] == pytest.approx(fitted.n_active_)
    assert {"log_likelihood", "log_delta2"} <= set(fitted.diagnostics_.index)
    assert fitted.diagnostics_.index.str.match(r"latent\[\d+\]").sum() == 50


def test_monte_carlo_errors_of_the_probabilities(fitted, groups):
    error = fitted.predict_error(groups[0])
    assert error.bags.shape == (6,)
    assert error.instances.shape == (60,)
    assert (error.instances > 0).all()
    assert (error.instances < 0.5).all()


def test_counts_and_fractions_of_new_groups(fitted, groups):
    found = fitted.predict_fraction(groups[0])
    assert np.corrcoef(found.mean, groups[1])[0, 1] > 0.8
    assert (found.lower <= found.upper).all()
    chance = fitted.predict_count_proba(groups[0], 0, groups[0].sizes)
    np.testing.assert_allclose(chance, 1.0, atol=1e-9)
    assert 0 <= fitted.score(*groups[:2]) <= 1


def test_the_printed_random_walk_learns_too(groups):
    bags, fractions, truth = groups
    walked = short(z_update="random-walk", lengthscale=1.0, n_samples=200, n_burn_in=200).fit(bags, fractions)
    assert roc_auc_score(truth, walked.predict_instance_proba(bags)[:, 1]) > 0.7


# ---------------------------------------------------------------- what it takes


def test_certain_groups_and_groups_that_say_nothing(groups):
    bags, _, _ = groups
    said = np.array([0.5, np.nan, 0.5, 0.0, 0.4, 1.0])
    confidence = np.array([50.0, 1.0, 10.0, 1000.0, 0.0, 1000.0])
    model = short(confidence=confidence, n_samples=80, n_chains=8).fit(bags, said)
    p = model.predict_instance_proba(bags)[:, 1]
    assert p[bags.index == 5].mean() - p[bags.index == 3].mean() > 0.1  # 0.458 ± 0.061
    silent = short(confidence=np.where(confidence == 0, 1.0, confidence), n_samples=80, n_chains=8)
    silent.fit(bags, np.where(confidence == 0, np.nan, said))
    np.testing.assert_array_equal(silent.predict_instance_proba(bags)[:, 1], p)  # χ = 0 is no evidence at all


def test_no_evidence_leaves_the_prior(groups):
    with pytest.warns(BagDataWarning, match="nothing is known"):
        model = short().fit(groups[0], np.full(6, np.nan))
    assert not model.predict_latent(groups[0])[0].any()


def test_known_instances_are_evidence(groups):
    bags, fractions, truth = groups
    known = np.where(np.arange(len(truth)) % 3 == 0, truth.astype(float), np.nan)
    settings = {"lengthscale": 0.7, "n_samples": 150, "n_burn_in": 100}
    told = short(**settings).fit(bags.with_known(known), np.full(6, np.nan))
    seen = ~np.isnan(known)
    assert roc_auc_score(truth[seen], told.predict_instance_proba(bags)[seen, 1]) > 0.9
    both = short(**settings).fit(bags.with_known(known), fractions)
    assert roc_auc_score(truth, both.predict_instance_proba(bags)[:, 1]) > 0.8


def test_kinds_of_evidence_mix(groups):
    bags, fractions, _ = groups
    mixed = Evidence.concat([bagwise.fraction(fractions[:4], 100.0), bagwise.label([1]), bagwise.count([10], [10])])
    model = short(n_chains=16).fit(bags, mixed)
    assert (
        model.predict_instance_proba(bags)[bags.index == 5, 1].mean() > 0.66
    )  # 0.811 ± 0.028; 0.591 without the count
    counts = np.column_stack([fractions * bags.sizes, fractions * bags.sizes]).round()
    assert np.isfinite(short(evidence="count").fit(bags, counts).predict_proba(bags)).all()


def test_several_labels_at_once(groups):
    bags, fractions, _ = groups
    both = np.column_stack([fractions > 0, fractions > 0.5]).astype(float)
    both[2, 1] = np.nan
    model = short(evidence="label").fit(bags, both)
    assert model.predict_proba(bags).shape == (6, 2)
    assert model.inclusion_.shape == (60, 2)
    assert model.n_active_.shape == (2,)
    assert model.chains_.values.shape[:3:2] == (2, 2)


@pytest.mark.parametrize("kernel", ["rbf", "sigmoid", "linear", "matern32", gpytorch.kernels.RQKernel()])
def test_kernels_by_name_or_from_gpytorch(kernel, groups, tmp_path):
    model = short(kernel=kernel, n_samples=15, n_burn_in=5).fit(*groups[:2])
    model.save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(groups[0]), model.predict_proba(groups[0]))


def test_the_sigmoid_kernel_is_for_kernel_machines_only(groups):
    model = short(kernel="sigmoid", lengthscale=2.0, n_samples=10).fit(*groups[:2])
    X = (groups[0].X - groups[0].X.mean(0)) / groups[0].X.std(0)
    np.testing.assert_allclose(model.features_.transform(groups[0])[0], np.tanh(X @ X.T / 4.0 + 1.0), atol=1e-9)
    with pytest.raises(BagDataError, match="kernel='sigmoid'"):
        BagGP(kernel="sigmoid", evidence="fraction").fit(*groups[:2])


def test_centres_are_all_instances_while_that_is_cheap(groups, monkeypatch):
    bags, fractions, _ = groups
    assert len(short(n_samples=5).fit(bags, fractions).centres_) == 60
    monkeypatch.setattr(module, "LARGEST_DICTIONARY", 8 * 59**2)
    monkeypatch.setattr(module, "MANY_CENTRES", 7)
    assert len(short(n_samples=5).fit(bags, fractions).centres_) == 7
    assert len(short(n_samples=5, n_centres=12).fit(bags, fractions).centres_) == 12
    own = np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(short(n_samples=5, centres=own).fit(bags, fractions).centres_, own)


def test_a_constant_may_be_a_centre(groups):
    bags, fractions, _ = groups
    with_constant = short(constant=True, n_centres=5).fit(bags, fractions)
    assert with_constant.inclusion_.shape == (6,)
    assert np.isfinite(with_constant.mean_)
    assert "mean" in with_constant.diagnostics_.index
    psi, _ = with_constant.features_.transform(bags)
    np.testing.assert_array_equal(psi[:, -1], 1.0)


def test_float32_is_near_float64(groups):
    model = short(dtype="float32", n_samples=10).fit(*groups[:2])
    assert np.isfinite(model.predict_proba(groups[0])).all()
    assert model.features_.jitter == 1e-4


# ---------------------------------------------------------------- chains


def test_thinning_keeps_every_so_many(groups):
    model = short(thin=4, n_samples=22).fit(*groups[:2])
    assert model.posterior_.values.shape[1:3] == (2, 6)
    assert len(model.chains_) == 22


def test_warm_start_makes_the_chains_longer(groups):
    whole = short(n_samples=30).fit(*groups[:2])
    part = short(n_samples=12, warm_start=True).fit(*groups[:2])
    part.set_params(n_samples=30).fit(*groups[:2])
    np.testing.assert_allclose(part.chains_.values, whole.chains_.values, atol=1e-9)


def test_a_checkpoint_goes_on(groups, tmp_path):
    def stop(sweep, value):
        if sweep == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        short(checkpoint=tmp_path / "c", callback=stop).fit(*groups[:2])
    again = short(checkpoint=tmp_path / "c").fit(*groups[:2])
    np.testing.assert_allclose(again.chains_.values, short().fit(*groups[:2]).chains_.values, atol=1e-9)


def test_unmixed_chains_are_said_to_be_so(groups):
    with pytest.warns(ConvergenceWarning, match="the chains have not mixed") as caught:
        short(n_samples=10).fit(*groups[:2])
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evidence": "votes"}, "evidence"),
        ({"z_update": "fast"}, "z_update"),
        ({"a": 0.0}, "a=0.0"),
        ({"nu": -1.0}, "nu"),
        ({"n_moves": 0}, "n_moves"),
        ({"thin": 0}, "thin"),
        ({"n_centres": 0}, "n_centres"),
        ({"constant": 1}, "constant"),
        ({"confidence": -1.0}, "a confidence is a number of at least 0"),
        ({"checkpoint": "x", "z_update": "random-walk"}, "random walk"),
        ({"kernel": "cubic"}, "kernel"),
    ],
)
def test_bad_settings_are_refused(settings, message, groups):
    with pytest.raises(BagDataError, match=message):
        short(**settings).fit(*groups[:2])


def test_kernels_that_cannot_be_told_apart():
    bags = Bags(np.zeros((6, 1)) + np.arange(6)[:, None] * 1e-12, [0, 0, 0, 1, 1, 1])
    with pytest.raises(NumericalError, match="larger jitter"):
        short(jitter=0.0, standardize=False, a=50.0, n_samples=50).fit(bags, [0.4, 0.6])


# ---------------------------------------------------------------- files, searches, command line


def test_a_saved_model_is_small_and_the_same(fitted, groups, tmp_path):
    fitted.save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    assert isinstance(again.posterior_, SparseSamplePosterior)
    np.testing.assert_array_equal(again.predict_instance_proba(groups[0]), fitted.predict_instance_proba(groups[0]))
    np.testing.assert_array_equal(again.inclusion_, fitted.inclusion_)
    np.testing.assert_array_equal(again.diagnostics_, fitted.diagnostics_)
    draws = fitted.posterior_.values.numel()
    assert (tmp_path / "model").stat().st_size < 20 * draws + 50_000


def test_a_damaged_file_is_refused(fitted, tmp_path):
    description, tensors = pack(fitted)
    broken = tensors | {"posterior.columns": tensors["posterior.columns"] + 1000}
    with pytest.raises(ModelFileError, match="damaged"):
        unpack(GroupKernelMachine, description, broken, fitted.posterior_.mean.device)
    missing = {key: value for key, value in tensors.items() if key != "posterior.values"}
    with pytest.raises(ModelFileError, match="damaged"):
        unpack(GroupKernelMachine, description, missing, fitted.posterior_.mean.device)


def test_grid_search_over_the_lengthscale(groups):
    bags, fractions, _ = groups
    search = GridSearchCV(short(n_samples=10, n_burn_in=5), {"lengthscale": [0.5, 1.5]}, cv=3)
    search.fit(bags, (fractions > 0.5).astype(float))
    assert search.best_params_["lengthscale"] in (0.5, 1.5)
    assert clone(search.best_estimator_).n_samples == 10


def test_the_command_line_fits_and_predicts(groups, tmp_path):
    bags, fractions, _ = groups
    frame = pd.DataFrame(bags.X, columns=["east", "north"])
    frame["district"], frame["share"] = np.array(bags.ids)[bags.index], fractions[bags.index]
    frame.to_csv(tmp_path / "people.csv", index=False)
    settings = [part for name in ("n_samples", "n_burn_in") for part in ("--set", f"{name}=20")]
    fit = ["fit", str(tmp_path / "people.csv"), "--model", "group-kernel-machine", "--bag", "district"]
    ran = CliRunner().invoke(app, [*fit, "--fraction", "share", "-o", str(tmp_path / "m"), *settings])
    assert ran.exit_code == 0, ran.output
    out = ["--instances", str(tmp_path / "out.csv")]
    ran = CliRunner().invoke(app, ["predict", str(tmp_path / "m"), str(tmp_path / "people.csv"), *out])
    assert ran.exit_code == 0, ran.output
    assert len(pd.read_csv(tmp_path / "out.csv")) == 60


def test_weights_of_rows_are_refused_by_the_group_kernel_machine_which_draws_every_individual():
    bags = Bags([[1.0], [2.0], [1.0]], ["x", "x", "y"], weight=[20, 30, 40])
    with pytest.raises(BagDataError, match=r"takes no weights: it needs a row for every individual.*use BagGP"):
        GroupKernelMachine().fit(bags, [0.5, 0.2])
