"""Small tables and archives."""

import numpy as np

from bagwise._archives import LIMIT_VARIABLE


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


MEGABYTE = 10**6


def new_one_megabyte(monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "0.001")
