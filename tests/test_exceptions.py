"""Warnings point at the line of the user."""

import warnings

import numpy as np

import bagwise
from bagwise.exceptions import BagDataWarning


def test_warning_points_at_the_line_that_called_the_library_however_deep_it_arose():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bagwise.MILGPProbit(n_inducing=2).fit([np.zeros((2, 1)), np.ones((1, 1))], [np.nan, np.nan])
    assert {(warning.category, warning.filename) for warning in caught} == {(BagDataWarning, __file__)}
