"""Where each model wins: every model on every data set with bag labels. ``python -m benchmarks.where --help``."""
