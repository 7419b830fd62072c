"""The kernel chosen by a log evidence: one search, and one judge for every kind of inference."""
