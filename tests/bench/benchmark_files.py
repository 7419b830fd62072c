"""Small archives in the form of the benchmark data."""

import numpy as np

from bagwise.bench.description import DataSet, Place

DATA = DataSet("set", "some")


def place(folder, fold=0, repeat=0, data=DATA, seed=7):
    return Place(folder, data, repeat, fold, seed + 10 * repeat + fold, 5 + repeat)


def numbers(bags):
    return set(np.asarray(bags.X)[:, 0].astype(int).tolist())
