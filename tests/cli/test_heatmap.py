"""``bagwise heatmap``: pictures, squares and scores of slides."""

import json

import h5py
import matplotlib.image
import numpy as np
import pytest
from tests.cli.command import done, refused, run
from tests.cli.slide_files import GRID


@pytest.fixture(scope="module")
def maps(slides, tmp_path_factory):
    there = tmp_path_factory.mktemp("maps")
    done("heatmap", slides / "model", slides / "features" / "0002.h5", "-o", there, "--given-label", 1, "--level", 0.4)
    return there


def test_heatmap_writes_a_picture_and_scores_beside_coords(maps):
    assert sorted(path.name for path in maps.iterdir()) == ["0002.geojson", "0002.png", "0002.scores.h5"]
    assert matplotlib.image.imread(maps / "0002.png").std() > 0.05
    with h5py.File(maps / "0002.scores.h5") as file:
        np.testing.assert_array_equal(file["coords"][()], GRID)
        assert file["probability"][:4].min() > file["probability"][4:].max()
        assert (file["spread"][()] > 0).all()


def check_position(position):
    assert len(position) == 2
    assert all(isinstance(number, int | float) for number in position)


def test_geojson_is_a_collection_of_closed_counterclockwise_squares_with_finite_scores(maps):
    """The rules of RFC 7946 for polygons, and the names that QuPath reads."""
    found = json.loads((maps / "0002.geojson").read_text(), parse_constant=pytest.fail)
    assert set(found) == {"type", "features"}
    assert found["type"] == "FeatureCollection"
    assert len(found["features"]) == 12
    for feature, place in zip(found["features"], GRID, strict=True):
        assert set(feature) == {"type", "geometry", "properties"}
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] == "Polygon"
        (ring,) = feature["geometry"]["coordinates"]
        for position in ring:
            check_position(position)
        assert ring[0] == ring[-1] == place.tolist()
        (x, y) = np.array(ring).T
        assert np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2 == 256**2  # above 0: counterclockwise
        properties = feature["properties"]
        assert properties["objectType"] == "detection"
        assert all(0 <= shade <= 255 for shade in properties["classification"]["color"])
        positive = properties["measurements"]["probability"] > 0.4
        assert properties["classification"]["name"] == ("positive" if positive else "negative")


def test_heatmap_refuses_what_it_cannot_draw(slides, tmp_path):
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        file["features"] = np.zeros((2, 3), dtype=np.float32)
    assert "has no coords" in refused("heatmap", slides / "model", tmp_path / "bare.h5", "-o", tmp_path / "out")
    slide = slides / "features" / "0000.h5"
    assert "folder of the slides" in refused("heatmap", slides / "model", slide, "-o", slides / "features")
    assert "are 0 and 1" in refused("heatmap", slides / "model", slide, "-o", tmp_path / "o", "--given-label", "yes")
    assert run("heatmap", slides / "model", slides / "nowhere.h5", "-o", tmp_path / "o").exit_code == 2
