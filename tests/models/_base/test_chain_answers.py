"""What is told of chains: errors, diagnostics, ArviZ."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from tests.models.sampled import problem, small

import bagwise
from bagwise import BagDataError
from bagwise.gp.posterior import SamplePosterior
from bagwise.plots import TraceDisplay

pytestmark = pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning")


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
