"""R-hat, effective sample sizes and Monte Carlo errors on chains whose truth is known, and against ArviZ."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bagwise import ConvergenceWarning
from bagwise.inference.chains import mixing
from bagwise.inference.chains.diagnostics import Chains, statistics, warn_if_unmixed


def autoregressive(rho, chains=4, n=5000, quantities=1, seed=0):
    """x_t = ρ x_{t−1} + √(1 − ρ²) ε_t, begun in its stationary law; the effective share of draws is (1 − ρ)/(1 + ρ)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(quantities, chains, n))
    x = noise.copy()
    for t in range(1, n):
        x[..., t] = rho * x[..., t - 1] + np.sqrt(1 - rho**2) * noise[..., t]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.5])
def test_effective_sizes_of_autoregressive_chains(rho):
    x = autoregressive(rho, quantities=20)
    expected = 20_000 * (1 - rho) / (1 + rho)
    for size in (mixing.ess_bulk(x), mixing.ess_mean(x)):
        assert size.mean() == pytest.approx(expected, rel=0.12)
    assert (mixing.r_hat(x) < 1.01).all()


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_the_monte_carlo_error_is_the_spread_of_averages(rho):
    x = autoregressive(rho, n=1000, quantities=300)
    spread = x.mean((-2, -1)).std()
    assert mixing.mcse_mean(x).mean() == pytest.approx(spread, rel=0.15)


def test_chains_that_disagree_are_seen():
    x = autoregressive(0.5, n=1000)
    apart = x + np.array([0.0, 0.0, 0.0, 1.5])[:, None]
    assert mixing.r_hat(apart)[0] > 1.1
    assert mixing.ess_bulk(apart)[0] < 40
    wide = x * np.array([1.0, 1.0, 1.0, 4.0])[:, None]  # the same centre: only the folded ranks can tell
    assert mixing.r_hat(wide)[0] > 1.05
    drifting = x + np.linspace(0, 3, 1000)  # every chain alike: only the halves can tell
    assert mixing.r_hat(drifting)[0] > 1.1


def test_constants_and_short_chains():
    constant = np.full((1, 4, 100), 3.0)
    assert mixing.r_hat(constant) == 1.0
    assert mixing.ess_bulk(constant) == mixing.ess_tail(constant) == 400
    assert mixing.mcse_mean(constant) == 0.0
    stuck = np.repeat(np.arange(4.0)[:, None], 100, axis=1)
    assert mixing.r_hat(stuck) > 1e6
    assert np.isnan(mixing.r_hat(np.zeros((2, 3)))).all()
    assert np.isnan(mixing.ess_bulk(np.zeros((5, 2, 3)))).all()


def arviz_statistics(x):
    """The same table by ArviZ, quantity by quantity."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ greets once a day and user
        arviz = pytest.importorskip("arviz")
    found = {
        "mcse_mean": [arviz.mcse(chains) for chains in x],
        "r_hat": [arviz.rhat(chains) for chains in x],
        "ess_bulk": [arviz.ess(chains) for chains in x],
        "ess_tail": [arviz.ess(chains, method="tail", prob=(0.05, 0.95)) for chains in x],
    }
    return {name: np.array(values, dtype=float).reshape(len(x)) for name, values in found.items()}


@pytest.mark.parametrize("n", [10, 11, 500, 2001])
@pytest.mark.parametrize("rho", [0.0, 0.95, -0.6])
def test_statistics_agree_with_arviz(rho, n):
    x = autoregressive(rho, n=n, quantities=3)
    x[2] += np.array([0.0, 0.0, 0.5, 1.0])[:, None]
    found = statistics(x)
    for name, expected in arviz_statistics(x).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-8, err_msg=name)


def test_the_table_and_the_warning_name_the_worst():
    values = np.concatenate([autoregressive(0.1, n=1000), autoregressive(0.99, n=1000, seed=1)])
    chains = Chains(("log_likelihood", "norm_v"), values[None])
    assert list(chains.table.index) == ["log_likelihood", "norm_v"]
    assert {"mean", "sd", "mcse_mean", "r_hat", "ess_bulk", "ess_tail"} == set(chains.table.columns)
    assert not chains.converged
    with pytest.warns(ConvergenceWarning, match=r"norm_v has R-hat .* the worst of 1 such quantities among 2"):
        warn_if_unmixed(chains)
    good = Chains(("log_likelihood",), values[None, :1])
    assert good.converged
    warn_if_unmixed(good)  # and says nothing


def test_too_few_draws_are_never_good():
    chains = Chains(("norm_v",), np.random.default_rng(0).normal(size=(1, 1, 4, 3)))
    assert not chains.converged
    with pytest.warns(ConvergenceWarning, match="norm_v has R-hat nan"):
        warn_if_unmixed(chains)


@pytest.mark.parametrize(
    ("r_hat", "ess", "good"), [(1.01, 400, True), (1.011, 400, False), (1.01, 399, False), (np.nan, 400, False)]
)
def test_chains_are_good_where_both_figures_are(r_hat, ess, good):
    chains = Chains(("first", "second"), np.zeros((1, 2, 4, 10)))
    chains.__dict__["table"] = pd.DataFrame({"r_hat": [1.0, r_hat], "ess_bulk": [1000.0, ess]})
    assert chains.converged is good


def test_several_labels_have_a_row_each():
    values = np.stack([autoregressive(0.0, n=300), autoregressive(0.99, n=300)])
    chains = Chains(("norm_v",), values, ("cat", "dog"))
    assert list(chains.table.index) == [("cat", "norm_v"), ("dog", "norm_v")]
    with pytest.warns(ConvergenceWarning, match="norm_v of dog"):
        warn_if_unmixed(chains)
