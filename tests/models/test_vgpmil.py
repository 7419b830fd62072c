"""VGPMIL and LMVGPMIL as estimators: evidence, errors, convergence, the logistic link in every answer."""

import copy
import math
import warnings

import gpytorch
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit
from sklearn.model_selection import GridSearchCV

import bagwise
from bagwise import LMVGPMIL, VGPMIL, BagDataError, Bags, ConvergenceWarning, Evidence, count, fraction, label
from bagwise.active import suggest
from bagwise.bag_models.rules import AtLeastOne
from bagwise.datasets import make_bags
from bagwise.inference.logistic_bound import LogisticBound
from bagwise.inference.loop import Trace
from bagwise.models.vgpmil import _falls
from bagwise.numerics.links import LOGISTIC, PROBIT
from bagwise.predict.points import points_of

MODELS = [VGPMIL, LMVGPMIL]
NAN = np.nan


@pytest.fixture(scope="module")
def wave():
    return make_bags(60, bag_size=(3, 7), random_state=0)


@pytest.fixture(scope="module")
def fitted(wave):
    bags, y, _ = wave
    return VGPMIL(n_inducing=20, bias=5.0, random_state=0).fit(bags, y)


def auc(truth, score):
    return np.mean(score[truth == 1][:, None] > score[truth == 0][None, :])


# ---------------------------------------------------------------- fitting


@pytest.mark.parametrize("updates", ["sequential", "structured"])
@pytest.mark.parametrize("model", MODELS)
def test_bags_and_instances_of_new_data_are_told_apart(model, updates, wave):
    bags, y, _ = wave
    new, new_y, new_instance_y = make_bags(80, bag_size=(3, 7), random_state=1)
    fit = model(updates=updates, bias=5.0, random_state=0).fit(bags, y)
    assert fit.converged_
    assert np.diff(fit.trace_.values).min() > -1e-9
    assert fit.log_evidence_ == fit.trace_.values[-1]
    assert auc(new_y, fit.predict_proba(new)[:, 1]) > 0.85
    assert auc(new_instance_y, fit.predict_instance_proba(new)[:, 1]) > 0.85


def test_the_published_number_of_iterations_is_made_without_complaint(wave):
    bags, y, _ = wave
    model = VGPMIL(max_iter=25, tol=0.0, random_state=0).fit(bags, y)
    assert model.n_iter_ == 25
    assert not model.converged_
    short = VGPMIL(max_iter=3, random_state=0).fit(bags, y)
    assert not short.converged_


def test_an_iteration_that_was_to_settle_and_did_not_is_reported(wave, monkeypatch):
    bags, y, _ = wave
    monkeypatch.setitem(bagwise.models.vgpmil._CAP, "sequential", 5)
    with pytest.warns(ConvergenceWarning, match="had not settled after 5 iterations"):
        VGPMIL(random_state=0).fit(bags, y)


@pytest.mark.parametrize("max_iter", [None, 30])
def test_parallel_updates_that_cycle_are_reported(max_iter):
    bags, y, _ = make_bags(80, bag_size=(5, 9), random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"round in circles: the bound fell in \d+ of"):
        model = VGPMIL(updates="parallel", max_iter=max_iter, bias=5.0, random_state=0).fit(bags, y)
    assert not model.converged_


def test_parallel_updates_that_settle_are_not_complained_about(wave):
    bags, y, _ = wave
    model = VGPMIL(H=2.0, updates="parallel", random_state=0).fit(bags, y)
    assert model.converged_


def test_falls_of_the_bound_are_counted_and_rises_are_not():
    values = np.array([-9.0, -5.0, -6.0, -4.0, -4.5, -4.5, -4.0])
    assert _falls(Trace("bound", values, np.ones(7), converged=False)) == 2


def test_the_large_margin_pushes_instances_away_from_the_border(wave):
    bags, y, _ = wave
    plain, bold = VGPMIL(random_state=0).fit(bags, y), LMVGPMIL(random_state=0).fit(bags, y)
    negative = np.isin(bags.index, np.flatnonzero(y == 0))
    assert np.median(bold.predict_latent(bags)[0][negative]) < np.median(plain.predict_latent(bags)[0][negative])


def test_margins_come_into_force_after_a_plain_model_has_settled(wave):
    bags, y, _ = wave
    plain = LMVGPMIL(random_state=0).fit(bags, y)
    published = LMVGPMIL(start="published", random_state=0).fit(bags, y)
    for model in (plain, published):
        assert model.converged_
        assert np.diff(model.trace_.values).min() > -1e-9
    assert plain.log_evidence_ > published.log_evidence_ + 10
    with pytest.raises(BagDataError, match="start"):
        LMVGPMIL(start="somehow").fit(bags, y)


def test_a_fit_that_is_interrupted_before_the_margins_keeps_the_plain_model(wave, monkeypatch):
    bags, y, _ = wave
    steps = []

    def impatient(state):
        steps.append(state)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return step(state)

    step = LogisticBound.step
    monkeypatch.setattr(LogisticBound, "step", impatient)
    model = LMVGPMIL(random_state=0)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 2 iterations"):
        model.fit(bags, y)
    assert np.isfinite(model.predict_proba(bags)).all()


def test_any_trust_in_labels_is_close_to_certainty_in_the_limit(wave):
    bags, y, _ = wave
    settings = {"updates": "structured", "n_inducing": 15, "random_state": 0, "tol": 1e-9}
    nearly = VGPMIL(H=1e12, **settings).fit(bags, y).predict_latent(bags)[0]
    certain = VGPMIL(H=math.inf, **settings).fit(bags, y).predict_latent(bags)[0]
    np.testing.assert_allclose(nearly, certain, atol=1e-5)


def test_wrong_labels_hurt_less_where_labels_are_trusted_less():
    """Two clusters; eighteen bags say that the right one is positive, two deny it."""
    rng = np.random.default_rng(0)
    side = np.arange(40) < 20
    bags = Bags(np.where(side, 3.0, -3.0)[:, None] + 0.3 * rng.normal(size=(40, 1)), np.arange(40))
    y = side.astype(int)
    y[:2] = 0
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale = 16.0
    settings = {"updates": "structured", "kernel": kernel, "random_state": 0}
    trusting, doubting = (VGPMIL(H=H, **settings).fit(bags, y).predict_latent(bags)[0] for H in (math.inf, 5.0))
    assert doubting[side].mean() > trusting[side].mean() + 0.2


# ---------------------------------------------------------------- evidence


def test_fractions_and_counts_teach_a_structured_model():
    bags, _, instance_y = make_bags(60, bag_size=(6, 10), random_state=0)
    positives = np.add.reduceat(instance_y, bags.offsets[:-1])
    settings = {"updates": "structured", "bias": 5.0, "n_inducing": 30, "random_state": 0}
    from_fractions = VGPMIL(evidence="fraction", **settings).fit(bags, positives / bags.sizes)
    ranges = np.column_stack([np.maximum(positives - 1, 0), np.minimum(positives + 1, bags.sizes)])
    from_counts = VGPMIL(evidence="count", **settings).fit(bags, ranges)
    for fit in (from_fractions, from_counts):
        assert np.diff(fit.trace_.values).min() > -1e-9
        assert auc(instance_y, fit.predict_instance_proba(bags)[:, 1]) > 0.9
    assert from_fractions.score(bags, positives / bags.sizes) > 0.7


def test_kinds_of_evidence_mix():
    bags, y, instance_y = make_bags(40, bag_size=(4, 6), random_state=1)
    positives = np.add.reduceat(instance_y, bags.offsets[:-1])
    parts = [label(y[:15]), fraction(positives[15:25] / bags.sizes[15:25]), count(positives[25:], positives[25:])]
    mixed = VGPMIL(updates="structured", random_state=0).fit(bags, Evidence.concat(parts))
    assert np.diff(mixed.trace_.values).min() > -1e-9
    labels = VGPMIL(random_state=0).fit(bags, label(y))  # labels are labels, whatever they are wrapped in
    np.testing.assert_allclose(labels.predict_proba(bags), VGPMIL(random_state=0).fit(bags, y).predict_proba(bags))


def test_margins_are_for_labels(wave):
    bags, y, _ = wave
    with pytest.raises(BagDataError, match=r"bag '.*' states a fraction, but LMVGPMIL takes label, known"):
        LMVGPMIL(updates="structured").fit(bags, fraction(0.5 * y))


@pytest.mark.parametrize("model", [VGPMIL(), VGPMIL(updates="parallel")], ids=["plain", "parallel"])
def test_counts_need_the_structured_update(model, wave):
    bags, y, _ = wave
    names = [f"slide {b}" for b in range(len(bags))]
    named = Bags(bags.X, np.repeat(names, bags.sizes))
    with pytest.raises(BagDataError, match=r"bag 'slide 0'.*learns from labels only.*updates='structured'"):
        model.fit(named, fraction(0.5 * y))


@pytest.mark.parametrize("updates", ["sequential", "structured"])
def test_known_instances_teach(updates):
    bags, y, instance_y = make_bags(30, bag_size=(3, 5), random_state=2)
    known = np.where(np.random.default_rng(0).random(bags.n_instances) < 0.4, instance_y, NAN)
    settings = {"updates": updates, "bias": 5.0, "random_state": 0}
    without = VGPMIL(**settings).fit(bags, y).predict_latent(bags)[0]
    informed = VGPMIL(**settings).fit(bags.with_known(known), y).predict_latent(bags)[0]
    assert informed[known == 1].mean() > without[known == 1].mean() + 0.1
    only = VGPMIL(**settings).fit(bags.with_known(known), np.full(len(bags), NAN))
    new, _, truth = make_bags(100, bag_size=(3, 5), random_state=5)
    assert auc(truth, only.predict_latent(new)[0]) > 0.8


def test_a_certain_label_that_contradicts_a_known_instance_is_refused_and_a_doubtful_one_is_not():
    bags = Bags(np.arange(8.0)[:, None], [0, 0, 1, 1, 2, 2, 3, 3]).with_known([1, NAN] + [NAN] * 6)
    y = [0, 1, 0, 1]
    with pytest.raises(BagDataError, match="contradicts its instances"):
        VGPMIL(H=math.inf, updates="structured").fit(bags, y)
    for updates in ("sequential", "structured"):
        assert np.isfinite(VGPMIL(updates=updates).fit(bags, y).log_evidence_)


def test_several_labels_with_gaps_are_fitted_at_once(wave):
    bags, y, _ = wave
    other = np.maximum.reduceat(bags.X[:, 1] > 1.0, bags.offsets[:-1]).astype(float)
    other[:5] = NAN
    settings = {"n_inducing": 15, "random_state": 0, "tol": 1e-9}
    both = VGPMIL(**settings).fit(bags, np.column_stack([y, other]))
    alone = VGPMIL(**settings).fit(bags, other)
    assert both.log_evidence_.shape == (2,)
    np.testing.assert_allclose(both.predict_proba(bags)[:, 1], alone.predict_proba(bags)[:, 1], atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"H": 1.0}, "H=1.0: expected a number above 1"),
        ({"H": 0.5}, "H=0.5: expected a number above 1"),
        ({"H": -3}, "H=-3: expected a positive number"),
        ({"H": "much"}, "H='much'"),
        ({"H": math.inf}, "H=inf: labels that are never wrong need updates='structured'"),
        ({"H": NAN}, "H=nan"),
        ({"updates": "random"}, "updates"),
        ({"evidence": "rumour"}, "evidence"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_impossible_settings_are_refused(settings, message, wave):
    bags, y, _ = wave
    with pytest.raises(BagDataError, match=message):
        VGPMIL(**settings).fit(bags, y)


@pytest.mark.parametrize(("settings", "message"), [({"C": 0.0}, "C=0.0"), ({"V": -1.0}, "V=-1.0")])
def test_impossible_margins_are_refused(settings, message, wave):
    bags, y, _ = wave
    with pytest.raises(BagDataError, match=message):
        LMVGPMIL(**settings).fit(bags, y)


# ---------------------------------------------------------------- answers through the logistic link


@pytest.mark.parametrize("variance", [0.01, 0.9, 2.5, 30.0, 400.0])
def test_instance_probabilities_are_those_of_the_integral(variance):
    for mean in (-8.0, -1.0, 0.0, 0.4, 5.0):
        spread = math.sqrt(variance)
        density = lambda z: expit(mean + spread * z) * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)  # noqa: B023, E731
        peak = min(max(-mean / spread, -11.0), 11.0)
        exact = quad(density, -12, 12, points=[peak], epsabs=1e-13, limit=500)[0]
        found = LOGISTIC.expected(
            torch.tensor([mean], dtype=torch.float64), torch.tensor([variance], dtype=torch.float64)
        ).item()
        assert found == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(("kappa", "error"), [(0.0, 0.0), (0.5, 1e-12), (2.0, 1e-7), (4.0, 1e-7), (64.0, 3e-5)])
def test_scores_given_v_are_the_log_odds_of_the_integral(kappa, error):
    centre = torch.linspace(-6, 6, 25).double()[None].repeat(3, 1)
    found = LOGISTIC.score(centre, torch.full((3,), kappa).double())
    exact = LOGISTIC.expected(centre, torch.full_like(centre, kappa))
    np.testing.assert_allclose(torch.sigmoid(found), exact, rtol=0, atol=error + 1e-13)


def test_scores_far_out_stay_numbers():
    centre = torch.tensor([[-2000.0, -750.0, 0.0, 750.0, 2000.0]]).double()
    found = LOGISTIC.score(centre, torch.ones(1).double())
    assert torch.isfinite(found).all()
    assert (found.diff() > 0).all()


def test_bag_probabilities_take_account_of_dependence(fitted):
    """Against plain Monte Carlo: v from its posterior, f given v, and independent coins given f."""
    rng = np.random.default_rng(0)
    bags, _, _ = make_bags(6, bag_size=(2, 8), random_state=7)
    phi, kappa = fitted.features_.transform(bags)
    posterior = fitted.posterior_
    covariance = torch.cholesky_inverse(posterior.factors[0]).numpy()
    v = rng.multivariate_normal(posterior.mean[:, 0].numpy(), covariance, 200_000)
    f = v @ phi.T + np.sqrt(kappa) * rng.normal(size=(200_000, len(kappa)))
    none = np.array([np.mean(np.prod(expit(-f[:, bags.index == b]), axis=1)) for b in range(len(bags))])
    np.testing.assert_allclose(fitted.predict_proba(bags)[:, 1], 1 - none, atol=4e-3)
    np.testing.assert_allclose(fitted.predict_instance_proba(bags)[:, 1], expit(f).mean(axis=0), atol=4e-3)


def test_counts_are_predicted_with_the_same_link(fitted):
    bags, _, _ = make_bags(10, bag_size=(2, 8), random_state=7)
    none = fitted.predict_count_proba(bags, 0, 0)
    np.testing.assert_allclose(1 - none, fitted.predict_proba(bags)[:, 1], atol=5e-3)
    each = np.add.reduceat(fitted.predict_instance_proba(bags)[:, 1], bags.offsets[:-1]) / bags.sizes
    summary = fitted.predict_fraction(bags)
    np.testing.assert_allclose(summary.mean, each, atol=1e-12)
    assert (summary.lower <= summary.upper).all()


def test_suggestions_are_made_with_the_same_link(fitted):
    """(1.11) by hand for the logistic link, over the model's own draws; a probit link would choose other numbers."""
    fitted = copy.copy(fitted)
    fitted.rule_ = AtLeastOne(shares=False)
    bags, _, _ = make_bags(12, bag_size=(2, 6), random_state=9)
    v = points_of(fitted.posterior_, fitted.seed_).weights[0].numpy()
    phi, kappa = fitted.features_.transform(bags)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    p = sum(
        w * expit((phi @ v) + np.sqrt(kappa)[:, None] * z) for z, w in zip(nodes, weights / weights.sum(), strict=True)
    )
    some = np.array([1 - np.prod(1 - p[bags.index == b], axis=0) for b in range(len(bags))])
    entropy = lambda q: -(q * np.log(q) + (1 - q) * np.log1p(-q))  # noqa: E731
    expected = entropy(some.mean(axis=1)) - entropy(some).mean(axis=1)
    found = suggest(fitted, bags, n=3)
    np.testing.assert_allclose(found.utilities, expected, atol=1e-8)
    assert found.indices[0] == np.argmax(expected)
    singles = suggest(fitted, bags, what="instances").utilities
    np.testing.assert_allclose(singles, entropy(p.mean(axis=1)) - entropy(p).mean(axis=1), atol=1e-8)


def test_the_link_is_kept_in_the_file(fitted, tmp_path, wave):
    bags, y, _ = wave
    fitted.save(tmp_path / "model.safetensors")
    again = bagwise.load(tmp_path / "model.safetensors")
    assert again.posterior_.link is LOGISTIC
    np.testing.assert_array_equal(again.predict_proba(bags), fitted.predict_proba(bags))
    probit = bagwise.MILGPProbit(random_state=0).fit(bags, y)
    probit.save(tmp_path / "probit.safetensors")
    assert bagwise.load(tmp_path / "probit.safetensors").posterior_.link is PROBIT


# ---------------------------------------------------------------- manners


def test_settings_can_be_searched(wave):
    bags, y, _ = wave
    grid = {"C": [1.0, 2.0], "V": [1.0, 2.0]}
    search = GridSearchCV(LMVGPMIL(n_inducing=10, tol=1e-3, random_state=0), grid, cv=2).fit(bags, y)
    assert set(search.best_params_) == {"C", "V"}


def test_an_interrupted_fit_keeps_what_it_had(wave):
    bags, y, _ = wave

    def stop(iteration, bound):
        if iteration == 4:
            raise KeyboardInterrupt

    model = VGPMIL(random_state=0, callback=stop)
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(bags, y)
    assert np.isfinite(model.predict_proba(bags)).all()


def test_single_precision_and_the_sparse_linear_kernel_work(wave):
    bags, y, _ = wave
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single = VGPMIL(dtype="float32", random_state=0).fit(bags, y)
        linear = VGPMIL(kernel="linear", bias=5.0, random_state=0).fit(bags, y)
    double = VGPMIL(random_state=0).fit(bags, y)
    np.testing.assert_allclose(single.predict_proba(bags), double.predict_proba(bags), atol=0.02)
    assert (linear.predict_latent(bags)[1] > 0).all()
