"""One bag, read back from the axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle
from tests.plots.drawn import texts

from bagwise.exceptions import BagDataError
from bagwise.plots import ORANGE, BagDisplay, as_images


def test_bars_stand_in_order_of_probability(model, data):
    bags, _, instance_y = data
    display = BagDisplay.from_estimator(model, bags, 3, instance_y=instance_y)
    own = model.predict_instance_proba(bags)[bags.index == 3, 1]
    widths = [bar.get_width() for bar in display.ax_.containers[1]]
    np.testing.assert_allclose(widths, np.sort(own)[::-1])
    colours = [bar.get_facecolor() for bar in display.ax_.containers[1]]
    marked = [colour == plt.matplotlib.colors.to_rgba(ORANGE) for colour in colours]
    np.testing.assert_array_equal(marked, instance_y[bags.index == 3][np.argsort(-own, kind="stable")] == 1)
    assert display.ax_.get_title("left").startswith(f"bag {bags.ids[3]} · P(positive) = ")


def test_a_bag_may_be_named_by_its_id(model, data):
    bags, _, _ = data
    by_id, by_number = (BagDisplay.from_estimator(model, bags, key) for key in (bags.ids[2], 2))
    np.testing.assert_array_equal(by_id.probability, by_number.probability)


def test_long_bags_are_cut_and_say_so():
    display = BagDisplay.from_predictions(np.linspace(0, 1, 50), name="$x_", max_instances=5)
    assert len(display.ax_.containers[1]) == 5
    assert display.ax_.get_title("left") == "bag $x_ · 5 of 50 instances"
    display.figure_.canvas.draw()


@pytest.mark.parametrize("shape", [(2, 2), (1, 1, 4)])
def test_images_carry_their_probability(model, data, shape):
    bags, _, instance_y = data
    display = BagDisplay.from_estimator(model, bags, 0, instance_y=instance_y, image_shape=shape)
    own = np.sort(model.predict_instance_proba(bags[0])[:, 1])[::-1]
    assert len(display.ax_.images) == bags.sizes[0]
    assert texts(display.ax_) == [f"{value:.2f}" for value in own]
    frames = [patch for patch in display.ax_.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    assert sum(frame.get_linewidth() > 1 for frame in frames) == instance_y[bags.index == 0].sum()


def test_the_shape_of_images_is_checked(data):
    with pytest.raises(BagDataError, match="with 4 values in all"):
        as_images(data[0], (3, 3))
    with pytest.raises(BagDataError, match=r"image_shape=2\.5"):
        as_images(data[0], (2.5, 2))
