"""Posteriors as draws: samplers, the loop that runs their chains, and how well they have mixed."""
