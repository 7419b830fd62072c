"""Chains whose autocorrelation is known."""

import numpy as np


def autoregressive(rho, chains=4, n=5000, quantities=1, seed=0):
    """x_t = ρ x_{t−1} + √(1 − ρ²) ε_t, begun in its stationary law; the effective share of draws is (1 − ρ)/(1 + ρ)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(quantities, chains, n))
    x = noise.copy()
    for t in range(1, n):
        x[..., t] = rho * x[..., t - 1] + np.sqrt(1 - rho**2) * noise[..., t]
    return x
