"""A folder of small h5 files."""

import h5py
import numpy as np

NAMES = ["0012", "slide with spaces", "é.ü.v2", "=1+1"]
PLACES = np.array([[0, 0], [512, 0], [0, 512]])


def write(path, **arrays):
    """An h5 file of the given arrays; one that is a pair comes with attributes."""
    with h5py.File(path, "w") as file:
        for name, given in arrays.items():
            values, notes = given if isinstance(given, tuple) else (given, {})
            file.create_dataset(name, data=values).attrs.update(notes)
