"""Stable arithmetic that knows nothing of bags: special functions, ragged segments, one Cholesky, links."""
