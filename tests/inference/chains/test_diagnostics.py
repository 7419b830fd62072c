"""R-hat, effective sample sizes and Monte Carlo errors on chains whose truth is known, and against ArviZ."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.inference.chains.autoregression import autoregressive

from bagwise import ConvergenceWarning
from bagwise.inference.chains.diagnostics import Chains, statistics, warn_if_unmixed


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
