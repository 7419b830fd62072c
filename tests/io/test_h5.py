"""Tiles of a slide in an h5 file."""

import h5py
import numpy as np
from tests.io.slide_folder import NAMES

from bagwise import Bags
from bagwise.io.folder import FolderRows
from bagwise.io.h5 import open_tiles


def test_sizes_of_tiles_are_those_of_the_finest_level(folder, tmp_path):
    assert open_tiles(folder / "0012.h5").tile_size == 512
    assert open_tiles(folder / "slide with spaces.h5").tile_size == 256
    assert open_tiles(folder / "é.ü.v2.h5").tile_size is None
    with h5py.File(tmp_path / "stamp.h5", "w") as file:
        file["feats"], file["coords"] = np.ones((2, 3)), np.zeros((2, 2))
        file.attrs.update({"unit": "um", "tile_size_um": 256.0})
    stamp = open_tiles(tmp_path / "stamp.h5")
    assert (stamp.unit, stamp.tile_size) == ("um", 256)
    assert list(Bags.from_folder(tmp_path).meta) == ["x_um", "y_um"]


def test_rows_of_a_folder_are_read_across_files(folder, rows):
    source = FolderRows([open_tiles(folder / f"{name}.h5") for name in NAMES[:3]])
    whole = np.concatenate(rows[:3])
    assert (source.shape, source.dtype) == ((9, 4), np.float32)
    for start, stop in [(0, 9), (2, 7), (3, 6), (8, 9), (4, 4), (5, 99)]:
        np.testing.assert_array_equal(source.read(start, stop), whole[start:stop])
