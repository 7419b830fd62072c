"""Maps of many tiles."""

import h5py
import numpy as np

from bagwise.io.heatmap import write_geojson, write_scores


def test_maps_of_twenty_thousand_tiles_are_a_few_megabytes(tmp_path):
    places = np.stack(np.meshgrid(np.arange(200), np.arange(100)), axis=-1).reshape(-1, 2) * 256.0
    score = np.random.default_rng(0).random(20_000)
    write_geojson(tmp_path / "map.geojson", places, 256.0, {"probability": score, "spread": score / 3})
    write_scores(tmp_path / "map.h5", places, {"probability": score, "spread": score / 3}, {})
    assert (tmp_path / "map.geojson").stat().st_size < 6e6
    assert (tmp_path / "map.h5").stat().st_size < 5e5
    with h5py.File(tmp_path / "map.h5") as file:
        np.testing.assert_array_equal(file["probability"][()], score)
