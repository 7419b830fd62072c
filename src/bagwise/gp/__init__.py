"""The Gaussian process: f = φᵀv + leftover as a map from rows to features, and q(v), what is believed of v."""
