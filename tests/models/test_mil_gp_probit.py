"""MILGPProbit by chains: its contract, and agreement with the mean field."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from tests.models.sampled import problem, small

from bagwise import BagDataError, Bags, MILGPProbit
from bagwise.bag_models.rules import AtLeastOne
from bagwise.gp.posterior import SamplePosterior
from bagwise.testing import CHECKS, check_files

pytestmark = pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning")


# One process reads the files of all: tests/test_new_process.py.
@pytest.mark.parametrize("check", [check for check in CHECKS if check is not check_files], ids=lambda one: one.__name__)
def test_chains_keep_the_contract(check):
    check(small())


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


@pytest.mark.filterwarnings("error::bagwise.ConvergenceWarning")
def test_long_chains_on_an_easy_problem_say_nothing():
    bags = Bags(np.array([[-1.0], [1.0], [-0.9], [1.1]]), [0, 1, 2, 3])
    model = small(n_samples=1500, n_burn_in=100, n_chains=4).fit(bags, [0, 1, 0, 1])
    assert model.converged_
    assert model.trace_.name == "log likelihood"
    assert len(model.trace_) == model.n_iter_ == 1600


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
