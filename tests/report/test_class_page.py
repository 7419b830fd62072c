"""The page about a model of one class out of many: confusion, candidates that leave a choice, "none of them"."""

import numpy as np
import pytest

from bagwise import BagGP, Bags, Evidence, label
from bagwise.report import write_report
from bagwise.report.answers import collect
from bagwise.report.content import reports
from bagwise.report.page import CLASSES_DRAWN, _confusion, _expected_course

NAMES = np.array(["ant", "bee"])
NONE = "none of them"


@pytest.fixture(scope="module")
def problem():
    """Twelve bags of three; the first instance shows the class, bags of the last four none."""
    rng = np.random.default_rng(0)
    kind = np.array([0, 1] * 4 + [2] * 4)
    X = rng.normal(0, 0.5, (36, 2))
    X[::3] += np.array([[4.0, 0.0], [0.0, 4.0], [0.0, 0.0]])[kind]
    bags = Bags(X, np.repeat(np.arange(12), 3))
    evidence = Evidence.concat([Evidence.candidates([{NAMES[k]} for k in kind[:8]]), label([0.0] * 4)])
    model = BagGP(learn=False, n_inducing=10, random_state=0).fit(bags, evidence)
    truth = np.array([*NAMES, NONE])[kind]
    return model, bags, truth, np.where(np.arange(36) % 3 == 0, truth.repeat(3), NONE)


def test_page_of_classes_shows_their_confusion(problem, tmp_path):
    model, bags, truth, rows = problem
    page = write_report(model, bags, truth, tmp_path / "page.html", instance_y=rows).read_text()
    assert "Confusion of classes diagram: share of right classes of the bags 1.000" in page
    assert "found at precision 0.9" in page


def test_instances_are_measured_where_bags_may_have_none_of_the_classes(problem):
    model, bags, truth, rows = problem
    found = reports(collect(model, bags, truth, rows))
    assert found["instance classes"]["n"] == 36
    assert found["instances"]["ant"]["recall_at_precision_90"] == 1.0


def test_confusion_counts_wrong_answers_that_candidates_leave_open(problem):
    model, bags, truth, _ = problem
    answers = collect(model, bags, truth, None, given=[{"ant", "bee"}] * 12)
    assert answers.classes.given.tolist() == [[True, True, False]] * 12
    assert "among the candidates" in _confusion(answers)[0]["meaning"]


def test_confusion_is_left_out_where_no_class_is_known_or_there_are_too_many(problem, monkeypatch):
    model, bags, truth, _ = problem
    assert _confusion(collect(model, bags, None, None)) == []
    assert _confusion(collect(model, bags, [{"ant", "bee"}] * 12, None)) == []
    assert CLASSES_DRAWN > 3
    monkeypatch.setattr("bagwise.report.page.CLASSES_DRAWN", 2)
    assert _confusion(collect(model, bags, truth, None)) == []


def test_log_evidence_of_classes_is_said_to_level_off(problem):
    assert _expected_course(problem[0]) == "may swing at first and should level off"
