"""Metrics against their definitions written out, and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from bagwise import metrics
from bagwise.exceptions import BagDataError


@pytest.fixture
def sample():
    random = np.random.default_rng(0)
    p = random.random(400)
    return (random.random(400) < p).astype(int), p


def test_measures_agree_with_scikit_learn(sample):
    y, p = sample
    report = metrics.bag_report(y, p)
    assert report["n"] == 400
    assert report["missing"] == 0
    assert report["positive_share"] == pytest.approx(y.mean())
    assert report["accuracy"] == pytest.approx(np.mean((p > 0.5) == y))
    assert report["auc"] == pytest.approx(roc_auc_score(y, p))
    assert report["average_precision"] == pytest.approx(average_precision_score(y, p))
    assert report["log_likelihood"] == pytest.approx(-log_loss(y, p))
    assert report["brier"] == pytest.approx(brier_score_loss(y, p))
    assert report["calibration_error"] < 0.1
    assert metrics.instance_report(y, p) == report


def test_recall_at_precision_is_the_best_threshold_of_all():
    y, p = np.array([1, 1, 0, 1, 0, 1]), np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.5])
    finds = [(np.mean(y[p >= t]), y[p >= t].sum() / y.sum()) for t in np.unique(p)]
    for precision in (0.6, 0.7, 0.75, 1.0):
        expected = max(recall for right, recall in finds if right >= precision)
        assert metrics.recall_at_precision(y, p, precision) == pytest.approx(expected)
    assert metrics.recall_at_precision([0, 1], [0.9, 0.1]) == 0.0
    assert math.isnan(metrics.recall_at_precision([0, np.nan], [0.9, 0.1]))


def test_a_wrong_certainty_costs_everything_and_a_right_one_nothing():
    assert metrics.log_likelihood([1, 0], [0.0, 0.0]) == -math.inf
    assert metrics.log_likelihood([1, 0], [1.0, 0.0]) == 0.0
    assert metrics.brier([1, 0], [0.5, 0.5]) == 0.25


def test_calibration_error_is_that_computed_by_hand():
    y = [0, 1, 1, 1]
    p = [0.05, 0.05, 0.95, 0.85]
    curve = metrics.reliability_curve(y, p)
    np.testing.assert_allclose(curve.mean_predicted, [0.05, 0.85, 0.95])
    np.testing.assert_allclose(curve.observed, [0.5, 1, 1])
    np.testing.assert_array_equal(curve.counts, [2, 1, 1])
    assert metrics.calibration_error(y, p) == pytest.approx((2 * 0.45 + 0.15 + 0.05) / 4)


def test_one_half_is_judged_negative_as_predict_judges_it():
    assert metrics.bag_report([0, 0, 1], [0.5, 0.5, 0.9])["accuracy"] == 1.0
    assert metrics.bag_report([1, 1, 0], [0.5, 0.9, 0.1])["accuracy"] == pytest.approx(2 / 3)


def test_the_extremes_fall_into_the_outer_bins():
    curve = metrics.reliability_curve([0, 1], [0.0, 1.0], n_bins=4)
    np.testing.assert_array_equal(curve.mean_predicted, [0, 1])


def test_quantile_bins_hold_about_equal_numbers(sample):
    y, p = sample
    curve = metrics.reliability_curve(y, p**4, n_bins=8, strategy="quantile")
    np.testing.assert_array_equal(curve.counts, [50] * 8)
    tied = metrics.reliability_curve(y, np.full(400, 0.3), strategy="quantile")
    np.testing.assert_array_equal(tied.counts, [400])


def test_unknown_truth_is_left_out_and_counted(sample):
    y, p = sample
    holes = y.astype(float)
    holes[::4] = np.nan
    keep = ~np.isnan(holes)
    expected = metrics.bag_report(y[keep], p[keep])
    assert metrics.bag_report(holes, p) == expected | {"missing": 100}


def test_one_class_leaves_ranking_undefined():
    report = metrics.bag_report([1, 1], [0.4, 0.9])
    assert math.isnan(report["auc"])
    assert math.isnan(report["average_precision"])
    assert report["log_likelihood"] == pytest.approx(np.log([0.4, 0.9]).mean())


def test_nothing_known_is_undefined_rather_than_an_error():
    report = metrics.bag_report([np.nan, np.nan], [0.4, 0.9])
    assert (report["n"], report["missing"]) == (0, 2)
    assert all(math.isnan(report[name]) for name in ("accuracy", "auc", "brier", "log_likelihood", "calibration_error"))


def test_columns_are_reported_one_by_one_with_their_mean(sample):
    y, p = sample
    two_y, two_p = np.stack([y, np.ones(400)], axis=1), np.stack([p, p], axis=1)
    report = metrics.bag_report(two_y, two_p, names=["cat", "dog"])
    assert report["cat"] == metrics.bag_report(y, p)
    assert report[metrics.MEAN_ROW]["auc"] == pytest.approx(roc_auc_score(y, p))
    assert report[metrics.MEAN_ROW]["brier"] == pytest.approx((report["cat"]["brier"] + report["dog"]["brier"]) / 2)
    assert list(metrics.bag_report(two_y, two_p)) == ["0", "1", metrics.MEAN_ROW]
    with pytest.raises(BagDataError, match="2 different names"):
        metrics.bag_report(two_y, two_p, names=["cat", "cat"])


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 1], [[0.5, 0.5], [0.1, 0.9]], r"predict_proba\(bags\)\[:, 1\]"),
        ([0, 1], [0.5], "shape"),
        ([0, 2], [0.5, 0.5], "expected 0, 1 or NaN"),
        (["no", "yes"], [0.5, 0.5], r"model\.classes_\[1\]"),
        ([0, 1], [0.5, 1.5], "between 0 and 1"),
        ([0, 1], [0.5, np.nan], "between 0 and 1"),
        (0, 0.5, "one entry per row"),
    ],
)
def test_what_cannot_be_measured_is_said(y, p, message):
    with pytest.raises(BagDataError, match=message):
        metrics.log_likelihood(y, p)


def test_bins_and_strategy_are_checked():
    with pytest.raises(BagDataError, match="n_bins"):
        metrics.reliability_curve([0], [0.5], n_bins=0)
    with pytest.raises(BagDataError, match="'uniform', 'quantile'"):
        metrics.calibration_error([0], [0.5], strategy="kmeans")


# ---------------------------------------------------------------- truth and probability in one form


def test_labels_become_truth_by_the_classes_of_the_model():
    classes = np.array(["no", "yes"])
    np.testing.assert_array_equal(
        metrics.truth_of(np.array(["yes", None, "no"], dtype=object), classes), [1, np.nan, 0]
    )
    np.testing.assert_array_equal(metrics.truth_of([[2.0], [5.0]], np.array([2, 5])), [0, 1])
    with pytest.raises(BagDataError, match="'maybe': expected 'no' or 'yes'"):
        metrics.truth_of(["maybe"], classes)


def test_several_columns_of_labels():
    classes = [np.array([0, 1]), np.array([0, 1])]
    np.testing.assert_array_equal(metrics.truth_of([[0, 1], [np.nan, 0]], classes), [[0, 1], [np.nan, 0]])
    with pytest.raises(BagDataError, match="2 label columns"):
        metrics.truth_of([0, 1], classes)


def test_instance_labels_may_be_classes_numbers_or_class_numbers():
    words = np.array(["no", "yes"])
    np.testing.assert_array_equal(metrics.instance_truth(["yes", "no"], words), [1, 0])
    np.testing.assert_array_equal(metrics.instance_truth([1, np.nan, 0], words), [1, np.nan, 0])
    three = [np.array([0, 1])] * 3
    np.testing.assert_array_equal(metrics.instance_truth([2, 3, np.nan], three), [[0, 0, 1], [0, 0, 0], [np.nan] * 3])
    with pytest.raises(BagDataError, match="class numbers 0 to 2"):
        metrics.instance_truth([4], three)


def test_the_positive_column_is_taken():
    np.testing.assert_array_equal(metrics.positive_proba([[0.3, 0.7]], np.array([0, 1])), [0.7])
    two = [np.array([0, 1])] * 2
    np.testing.assert_array_equal(metrics.positive_proba([[0.3, 0.6]], two), [[0.3, 0.6]])


# ---------------------------------------------------------------- fractions and counts


def test_fractions_are_judged_by_distance_and_coverage():
    found = metrics.fraction_report(
        fraction=[0.33, 0.5, 1.0, np.nan],
        mean=[0.33, 0.25, 0.5, 0.1],
        lower=[1 / 3, 0.0, 0.25, 0.0],  # 0.33 was rounded: it still lies inside
        upper=[2 / 3, 0.5, 0.75, 1.0],
        sizes=[3, 4, 4, 9],
    )
    assert found == pytest.approx(
        {"n": 3, "missing": 1, "mean_absolute_error": 0.25, "coverage": 2 / 3, "interval_width": (1 / 3 + 1) / 3}
    )


def test_coverage_forgives_half_an_instance_and_no_more():
    for fraction, inside in ((0.12, 1.0), (0.13, 0.0)):
        assert metrics.fraction_report([fraction], [0.0], [0.0], [0.0], [4])["coverage"] == inside
        assert metrics.fraction_report([1.0 - fraction], [1.0], [1.0], [1.0], [4])["coverage"] == inside


def test_counts_are_judged_by_the_ranges():
    found = metrics.count_report(
        lo=[0, 2, 3, np.nan],
        hi=[1, 2, 5, 4],
        probability=[0.5, 0.25, 1.0, 0.7],
        lower=[1, 0, 0, 0],
        upper=[2, 1, 3, 9],
    )
    expected = {"n": 3, "missing": 1, "range_log_likelihood": math.log(0.125) / 3, "intervals_met": 2 / 3}
    assert found == pytest.approx(expected | {"interval_width": 5 / 3})


def test_nothing_stated_is_nothing_measured():
    nothing = [np.nan]
    fractions = metrics.fraction_report(nothing, [0.5], [0.0], [1.0], [3])
    counts = metrics.count_report(nothing, nothing, [0.5], [0.0], [1.0])
    for found in (fractions, counts):
        assert (found.pop("n"), found.pop("missing")) == (0, 1)
        assert all(math.isnan(value) for value in found.values())


def test_an_impossible_range_costs_everything():
    assert metrics.count_report([2], [2], [0.0], [0], [1])["range_log_likelihood"] == -math.inf


# ---------------------------------------------------------------- the expected AUC


@pytest.mark.parametrize("ties", [False, True])
def test_expected_auc_is_the_sum_over_all_pairs(ties):
    p = np.random.default_rng(0).random(30).round(1 if ties else 8)
    right = total = 0.0
    for i in range(30):
        for j in range(30):
            if i != j:
                weight = p[i] * (1 - p[j])
                right += weight * (1.0 if p[i] > p[j] else 0.5 if p[i] == p[j] else 0.0)
                total += weight
    assert metrics.expected_auc(p) == pytest.approx(right / total)


def test_expected_auc_of_certainties_and_of_nothing():
    assert metrics.expected_auc([0.0, 1.0, 1.0]) == 1.0
    assert metrics.expected_auc([0.5, 0.5]) == 0.5
    assert np.isnan(metrics.expected_auc([1.0, 1.0]))
    assert np.isnan(metrics.expected_auc([0.3]))
