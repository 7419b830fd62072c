"""Posteriors as a Gaussian around the mode of a loss of whole bags."""
