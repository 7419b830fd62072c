"""What the displays draw, read back from the axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from bagwise import MILGPProbit
from bagwise.datasets import make_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import reliability_curve
from bagwise.plots import ORANGE, BagDisplay, ReliabilityDisplay, TraceDisplay, as_images, wilson_interval


@pytest.fixture(autouse=True)
def quiet_plots():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_bags(30, (4, 6), 4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    bags, y, _ = data
    return MILGPProbit(n_inducing=10, max_iter=5, random_state=0).fit(bags, y)


@pytest.fixture(scope="module")
def two_labels(data):
    bags, y, _ = data
    return MILGPProbit(n_inducing=10, max_iter=5, random_state=0).fit(bags, np.stack([y, 1 - y], axis=1))


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_reliability_draws_the_curve_of_the_predictions(model, data):
    bags, y, _ = data
    display = ReliabilityDisplay.from_estimator(model, bags, y, n_bins=5)
    expected = reliability_curve(y, model.predict_proba(bags)[:, 1], n_bins=5)
    drawn = display.ax_.lines[1]
    np.testing.assert_array_equal(drawn.get_xdata(), expected.mean_predicted)
    np.testing.assert_array_equal(drawn.get_ydata(), expected.observed)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["MILGPProbit"]
    assert display.figure_ is display.ax_.figure


def test_displays_draw_on_given_axes(model):
    _, ax = plt.subplots()
    assert ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.4, 0.9], ax=ax).ax_ is ax
    assert TraceDisplay.from_estimator(model, ax=ax).ax_ is ax
    assert BagDisplay.from_predictions([0.5, 0.1], ax=ax).ax_ is ax
    assert len(plt.get_fignums()) == 1


def test_a_label_is_chosen_among_several(two_labels, data):
    bags, y, _ = data
    labels = np.stack([y, 1 - y], axis=1)
    display = ReliabilityDisplay.from_estimator(two_labels, bags, labels, label=1)
    expected = reliability_curve(1 - y, two_labels.predict_proba(bags)[:, 1])
    np.testing.assert_array_equal(display.curve.observed, expected.observed)
    with pytest.raises(BagDataError, match="labels 0 to 1"):
        ReliabilityDisplay.from_estimator(two_labels, bags, labels, label=2)


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


def test_the_trace_says_how_it_ended(model):
    display = TraceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.ax_.lines[0].get_ydata(), model.trace_.values)
    assert display.ax_.get_ylabel() == "bound"
    assert display.ax_.get_legend().get_texts()[0].get_text() == "not settled after 5 iterations"
    assert "settled after 2" in TraceDisplay([1.0, 2.0]).plot().ax_.get_legend().get_texts()[0].get_text()


def test_wilson_interval_against_a_published_value():
    below, above = wilson_interval(np.array([0.0, 0.5]), np.array([10, 10]))
    np.testing.assert_allclose([below[0], above[0]], [0.0, 0.2775], atol=5e-4)
    np.testing.assert_allclose([below[1], above[1]], [0.2366, 0.7634], atol=5e-4)
