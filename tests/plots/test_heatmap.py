"""Maps of slides: what is drawn where."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from tests.problems import random_bags, random_labels

from bagwise import BagDataError, Bags, MILGPProbit
from bagwise.plots import HeatmapDisplay
from bagwise.plots.heatmap import Raster, usual_step


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_tiles_are_drawn_at_their_places_and_gaps_stay_empty():
    coords = np.array([[100, 50], [110, 50], [100, 70]])
    raster = Raster.of(coords.astype(float), np.array([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(raster.values, [[0.1, 0.2], [np.nan, np.nan], [0.3, np.nan]])
    assert raster.extent == (100, 120, 80, 50)


def test_tiles_in_one_cell_are_averaged():
    coords = np.array([[0, 0], [0, 0], [10, 0]], dtype=float)
    np.testing.assert_allclose(Raster.of(coords, np.array([0.2, 0.4, 1.0])).values, [[0.3, 1.0]])


def test_a_stray_distance_does_not_change_the_grid():
    grid = np.stack(np.meshgrid(np.arange(9), np.arange(9)), axis=-1).reshape(-1, 2) * 256.0
    assert usual_step(grid) == 256
    assert usual_step(np.vstack([grid, [1.0, 1.0]])) == 256
    assert usual_step(grid[:1]) == 1
    far = np.array([[0.0, 0.0], [1e-6, 0.0], [1e9, 1e9]])
    assert Raster.of(far, np.zeros(3)).values.size < 5_000_000


def test_the_line_runs_around_the_cells_above_the_level():
    coords = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2) * 10.0
    inside = (coords[:, 0] >= 10) & (coords[:, 0] <= 20) & (coords[:, 1] == 10)  # two cells side by side
    display = HeatmapDisplay(coords, np.where(inside, 0.9, 0.1)).plot(level=0.5)
    (lines,) = display.ax_.collections
    segments = {tuple(map(tuple, np.sort(segment, axis=0))) for segment in lines.get_segments()}
    edges = [((10, 10), (20, 10)), ((20, 10), (30, 10)), ((10, 20), (20, 20)), ((20, 20), (30, 20))]
    assert segments == {*edges, ((10, 10), (10, 20)), ((30, 10), (30, 20))}


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    plain = random_bags(rng, n_bags=12, sizes=(6, 6))
    places = np.tile(np.stack(np.meshgrid(np.arange(3), np.arange(2)), axis=-1).reshape(-1, 2) * 256, (12, 1))
    bags = Bags(plain.X, plain.index, meta={"x": places[:, 0], "y": places[:, 1]})
    return MILGPProbit(random_state=0).fit(bags, random_labels(rng, bags)), bags


def test_display_shows_the_answers_of_the_model_on_a_scale_from_0_to_1(fitted):
    model, bags = fitted
    display = HeatmapDisplay.from_estimator(model, bags, "3", given=1)
    expected = model.predict_instance_proba(bags[3], given=[1])[:, 1]
    np.testing.assert_array_equal(display.probability, expected)
    np.testing.assert_allclose(np.asarray(display.ax_.images[0].get_array()).ravel(), expected)
    assert display.ax_.images[0].get_clim() == (0, 1)
    pictures = [ax for ax in display.figure_.axes if ax.images]
    assert [ax.get_title("left") for ax in pictures] == ["3", "uncertainty"]


def test_a_picture_can_be_laid_under_the_map(fitted):
    model, bags = fitted
    under = np.zeros((20, 30, 3))
    display = HeatmapDisplay.from_estimator(model, bags, 0, image=under, image_size=(768, 512), ax=plt.subplots()[1])
    assert display.ax_.images[0].get_extent() == [0, 768, 512, 0]
    assert display.ax_.images[1].get_alpha() < 1


def test_bags_without_positions_are_refused(fitted):
    model, bags = fitted
    with pytest.raises(BagDataError, match="the bags have no positions"):
        HeatmapDisplay.from_estimator(model, bags.with_meta(None))
    with pytest.raises(BagDataError, match="expected a finite position"):
        HeatmapDisplay([[0, 0], [np.nan, 1]], [0.1, 0.2])
