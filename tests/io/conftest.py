"""A small table."""

import numpy as np
import pandas as pd
import pytest
from tests.io.slide_folder import NAMES, PLACES, write


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "slide": ["007", "NA", "007", "7"],
            "area": [0.1, 2.5, 1 / 3, 1e-300],
            "count": [1, 2, 3, 4],
            "cancer": [1.0, np.nan, 1.0, 0.0],
        }
    )


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(3, 4)).astype(np.float32) for _ in NAMES]


@pytest.fixture
def folder(tmp_path, rows):
    there = tmp_path / "features"
    there.mkdir()
    trident = {"patch_size": 256, "level0_magnification": 40, "target_magnification": 20}
    write(there / f"{NAMES[0]}.h5", features=rows[0][None], coords=(PLACES[None], trident))
    write(there / f"{NAMES[1]}.h5", features=rows[1], coords=(PLACES, {"patch_size": 256}))
    write(there / f"{NAMES[2]}.h5", feats=rows[2], coords=PLACES)
    write(there / f"{NAMES[3]}.hdf5", patch_embeddings=rows[3].astype(np.float16), coords=PLACES)
    return there
