"""Figures and tables of a report."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tests.problems import random_bags

from bagwise.evidence.statements import count
from bagwise.metrics import count_report
from bagwise.models._base.fit_record import FitRecord
from bagwise.predict.counts import FractionSummary
from bagwise.report.answers import Answers, ReportedCounts
from bagwise.report.content import headlines, mixing, mixing_warning, number, reports


def test_models_without_chains_have_none_to_announce(model):
    assert mixing(model) is None
    assert mixing_warning(model) is None


def test_numbers_are_rounded_and_infinities_are_signs():
    assert [number(value) for value in (0.12345, -1.5, float("nan"), -np.inf, np.inf)] == [
        "0.123",
        "−1.500",
        "–",
        "−∞",
        "∞",
    ]


def test_ranges_of_counts_are_compared_with_intervals_of_counts():
    bags = random_bags(np.random.default_rng(0), n_bags=3, sizes=(4, 4))
    expected = FractionSummary(np.full(3, 0.5), np.full(3, 0.25), np.full(3, 0.75))
    said = ReportedCounts(expected, np.array([0.9, 0.5, 0.1]))
    stated = count([1, 4, 0], [2, 4, 0])
    probability = np.full((3, 1), 0.5)
    answers = Answers(
        bags, ("label",), False, probability, None, np.full((12, 1), 0.5), None, stated=stated, counts=said
    )
    found = reports(answers)["counts"]
    assert found == count_report([1, 4, 0], [2, 4, 0], said.range_probability, [1, 1, 1], [3, 3, 3])
    assert found["intervals_met"] == pytest.approx(1 / 3)


def test_log_likelihood_is_compared_with_that_of_a_constant():
    report = {"auc": 0.5, "log_likelihood": -0.4, "calibration_error": 0.1, "positive_share": 0.25}
    told = " ".join(line.meaning for line in headlines({"bags": report}))
    assert f"{-(0.25 * math.log(4) + 0.75 * math.log(4 / 3)):.3f}".replace("-", "−") in told


@pytest.mark.parametrize(
    ("r_hat", "ess", "announced"), [(1.005, 500, False), (1.05, 500, True), (1.005, 100, True), (1.05, 100, True)]
)
def test_chains_are_announced_where_either_figure_is_bad(r_hat, ess, announced):
    table = pd.DataFrame({"r_hat": [1.0, r_hat], "ess_bulk": [1000.0, ess]})
    record = FitRecord(chains=SimpleNamespace(table=table))
    assert (mixing_warning(SimpleNamespace(fit_record=lambda: record)) is not None) is announced
