"""Probabilities over a plane, read back from the axes."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from bagwise.exceptions import BagDataError
from bagwise.plots import BLUE, ORANGE, DecisionMapDisplay


def test_a_decision_map_shows_the_probabilities_of_the_plane(model, data):
    bags, _, instance_y = data
    display = DecisionMapDisplay.from_estimator(model, bags, features=(1, 3), instance_y=instance_y, resolution=12)
    assert display.probability.shape == (12, 12)
    row = np.median(bags.X, axis=0)
    row[1], row[3] = display.across[4], display.up[9]
    assert display.probability[9, 4] == pytest.approx(model.predict_instance_proba(row[None])[0, 1])
    assert display.across[0] < bags.X[:, 1].min() < bags.X[:, 1].max() < display.across[-1]
    sizes = [len(dots.get_offsets()) for dots in display.ax_.collections if dots.get_offsets().size]
    assert sorted(sizes)[-2:] == sorted([(instance_y == 0).sum(), (instance_y == 1).sum()])
    assert display.ax_.get_xlabel() == "feature 1"
    marks = {
        dots.get_label(): to_hex(dots.get_facecolor()[0]) for dots in display.ax_.collections if dots.get_offsets().size
    }
    assert (marks["known negative"], marks["known positive"]) == (BLUE, ORANGE)
    low, high = display.ax_.images[0].cmap([0.0, 1.0])
    assert low[2] > low[0]  # bluish
    assert high[0] > high[2]  # orange


def test_a_decision_map_of_one_label_with_unknown_instances(two_labels, data):
    bags, _, _ = data
    at = np.zeros(4)
    display = DecisionMapDisplay.from_estimator(two_labels, bags, label=1, at=at, resolution=5)
    grid = np.column_stack([display.across, np.full(5, display.up[0]), np.zeros((5, 2))])
    np.testing.assert_allclose(display.probability[0], two_labels.predict_instance_proba(grid)[:, 1])
    assert display.plot(colorbar=True, title="map").ax_.get_title() == "map"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": (0, 0)}, "two different"),
        ({"features": (0, 9)}, "no column 9"),
        ({"features": ("age", 1)}, "no column 'age'"),
        ({"at": [1.0]}, "a row of 4"),
        ({"instance_y": [1, 0]}, "one value per instance"),
        ({"resolution": 1}, "resolution"),
    ],
)
def test_what_a_decision_map_refuses(settings, message, model, data):
    with pytest.raises(BagDataError, match=message):
        DecisionMapDisplay.from_estimator(model, data[0], **settings)
