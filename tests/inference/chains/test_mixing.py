"""R-hat, effective sizes and Monte Carlo errors of chains whose truth is known."""

import numpy as np
import pytest
from tests.inference.chains.autoregression import autoregressive

from bagwise.inference.chains import mixing


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
