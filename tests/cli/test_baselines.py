"""Baselines from the shell: fitted, asked, reported; no word on what to label next."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bagwise
from bagwise.cli.app import app
from bagwise.datasets import make_bags

BAGS, Y, INSTANCE_Y = make_bags(20, (3, 5), random_state=0)


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame(BAGS.X, columns=[f"x{d}" for d in range(BAGS.n_features)])
    fraction = np.add.reduceat(INSTANCE_Y, BAGS.offsets[:-1]) / BAGS.sizes
    one_false = np.eye(3, dtype=int)[np.arange(20) % 3] | np.eye(3, dtype=int)[(np.arange(20) + 1) % 3]
    stated = {"bag": BAGS.index, "label": Y[BAGS.index], "share": fraction[BAGS.index]}
    stated |= {name: one_false[BAGS.index, c] for c, name in enumerate("abc")}
    frame.assign(**stated).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("model", "evidence"),
    [("mi-svm", ("--label", "label")), ("mean-map", ("--fraction", "share")), ("pl-knn", ("--candidates", "a,b,c"))],
)
def test_baseline_is_fitted_asked_evaluated_and_reported(table, tmp_path, model, evidence):
    others = ",".join({"label", "share", "a", "b", "c"} - set(evidence[1].split(",")))
    fitted = run("fit", table, "--model", model, "--bag", "bag", *evidence, "--ignore", others, "-o", tmp_path / "m")
    assert fitted.exit_code == 0, fitted.output
    assert "20 bags" in fitted.output
    files = ("--instances", tmp_path / "i.csv", "--bags", tmp_path / "b.csv")
    assert run("predict", tmp_path / "m", table, *files).exit_code == 0
    assert len(pd.read_csv(tmp_path / "i.csv")) == BAGS.n_instances
    assert len(pd.read_csv(tmp_path / "b.csv")) == 20
    measured = run("evaluate", tmp_path / "m", table)
    assert measured.exit_code == 0, measured.output
    reported = run("report", tmp_path / "m", table, "-o", tmp_path / "r.html")
    assert reported.exit_code == 0, reported.output
    assert bagwise.load(tmp_path / "m").card.name == model


def test_baseline_does_not_suggest_what_to_label(table, tmp_path):
    run(
        "fit",
        table,
        "--model",
        "nsk",
        "--bag",
        "bag",
        "--label",
        "label",
        "--ignore",
        "share,a,b,c",
        "-o",
        tmp_path / "m",
    )
    refused = run("suggest", tmp_path / "m", table)
    assert refused.exit_code == 2
    assert "NSK is a baseline without a posterior" in refused.output


def test_baseline_refuses_evidence_that_it_does_not_take(table, tmp_path):
    refused = run("fit", table, "--model", "mi-svm", "--bag", "bag", "--fraction", "share", "-o", tmp_path / "m")
    assert refused.exit_code == 2
    assert "mi-svm takes label" in refused.output
    assert "mean-map" in refused.output


def test_baselines_are_listed_with_the_source_of_their_probabilities():
    printed = run("models").output
    assert "citation-knn" in printed
    assert "calibrated" in printed
