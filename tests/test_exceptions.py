"""Warnings point at the line of the user."""

import warnings

import numpy as np
import pytest

import bagwise
from bagwise import _files
from bagwise.exceptions import BagDataWarning


def test_warning_points_at_the_line_that_called_the_library_however_deep_it_arose():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bagwise.MILGPProbit(n_inducing=2).fit([np.zeros((2, 1)), np.ones((1, 1))], [np.nan, np.nan])
    assert {(warning.category, warning.filename) for warning in caught} == {(BagDataWarning, __file__)}


def test_warning_inside_of_a_with_block_of_the_library_points_at_the_line_of_the_user(tmp_path, monkeypatch):
    def refuse(number):
        raise OSError(95, "not supported")

    monkeypatch.setattr(_files, "_lock", refuse)
    with (
        pytest.warns(UserWarning, match=r"cannot be locked \(not supported\)") as caught,
        _files.alone_in(tmp_path, "x"),
    ):
        pass
    assert caught[0].filename == __file__
