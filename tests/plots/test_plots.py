"""What the displays draw, read back from the axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from bagwise import BagGP, MILGPProbit
from bagwise.datasets import make_bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import reliability_curve
from bagwise.plots import (
    BLUE,
    ORANGE,
    BagDisplay,
    DecisionMapDisplay,
    RelevanceDisplay,
    ReliabilityDisplay,
    TraceDisplay,
    as_images,
    wilson_interval,
)


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


def test_few_relevances_are_bars_by_rank_and_known_ones_are_marked():
    display = RelevanceDisplay([0.1, 0.6, 0.3], names=["a$b", "b", "c"], relevant=[False, True, False]).plot()
    assert [bar.get_width() for bar in display.ax_.patches] == [0.6, 0.3, 0.1]
    assert to_hex(display.ax_.patches[0].get_facecolor()) == ORANGE
    assert texts(display.ax_) == ["0.60", "b", "0.30", "c", "0.10", "a$b"]


def test_many_relevances_are_points_in_the_order_of_the_columns():
    shares = np.random.default_rng(0).dirichlet(np.ones(60))
    display = RelevanceDisplay(shares, relevant=np.arange(60) < 5).plot()
    others, known = (line.get_ydata() for line in display.ax_.lines[:2])
    np.testing.assert_array_equal(known, shares[:5])
    np.testing.assert_array_equal(others, shares[5:])
    assert display.ax_.get_yscale() == "log"
    plain = RelevanceDisplay(shares).plot(max_features=100)
    assert len(plain.ax_.patches) == 60


def test_relevances_of_a_fitted_model(data):
    bags, y, _ = data
    fitted = BagGP(ard=True, n_inducing=10, random_state=0).fit(bags, y)
    display = RelevanceDisplay.from_estimator(fitted)
    shares = sorted(fitted.relevance_, reverse=True)
    np.testing.assert_allclose([bar.get_width() for bar in display.ax_.patches], shares)
    for unlearned in (BagGP(ard=True, learn=False), MILGPProbit()):
        with pytest.raises(BagDataError, match="has learned no relevances"):
            RelevanceDisplay.from_estimator(unlearned.fit(bags, y))
    with pytest.raises(BagDataError, match="no lengthscales"):
        RelevanceDisplay.from_estimator(BagGP(kernel="linear", learn=False).fit(bags, y))
    with pytest.raises(BagDataError, match="3 features, but 2 names"):
        RelevanceDisplay([0.2, 0.3, 0.5], names=["a", "b"])


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
