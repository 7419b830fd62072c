"""The page about shares of several outcomes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.precincts import precincts
from tests.report.test_page import Page
from typer.testing import CliRunner

from bagwise import BagGP
from bagwise.cli.app import app
from bagwise.exceptions import BagDataError
from bagwise.metrics import fraction_report
from bagwise.report import write_report
from bagwise.report.answers import collect
from bagwise.report.content import reports


@pytest.fixture(scope="module")
def election():
    rng = np.random.default_rng(0)
    bags, _, people = precincts(14, totals=(50, 300))
    chance = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    votes = np.stack([[rng.multinomial(n, p) for n, p in zip(row, chance, strict=True)] for row in people]).sum(1)
    shares = votes / votes.sum(1, keepdims=True)
    shares[3] = [0.05, 0.9, 0.05]  # nobody would expect this
    y = pd.DataFrame(shares, columns=["red", "blue", "none"], index=bags.ids)
    settings = {"evidence": "fraction", "confidence": 1e5, "learn": False, "group_effect": 0.1, "random_state": 0}
    return BagGP(**settings).fit(bags, y), bags, y


def test_page_of_several_outcomes_ranks_bags_by_surprise_and_measures_coverage(election, tmp_path):
    model, bags, y = election
    answers = collect(model, bags, y, None)
    assert int(np.argmax(answers.surprise())) == 3
    assert answers.most_surprising(3).labels == ("blue",)
    page = Page(write_report(model, bags, y, tmp_path / "r.html"))
    expected = model.predict_fraction(bags)
    for k, name in enumerate(y.columns):
        wanted = fraction_report(y[name], *(part[:, k] for part in expected), bags.totals)
        assert reports(answers)["outcomes"][name] == pytest.approx(wanted)
        assert f"Shares of {name}" in page.text
    assert page.count("figure") >= 4
    table = json.loads(re.search(r'id="bag-data">(.*?)</script>', page.source)[1])
    assert table["rows"][0][0] == "p3"
    assert table["rows"][0][3] == "blue"
    assert "holds at least one" not in page.text
    assert "mean over 3 outcomes" in page.text


def test_page_of_several_outcomes_needs_no_truth(election, tmp_path):
    model, bags, _ = election
    page = Page(write_report(model, bags, None, tmp_path / "r.html"))
    assert "red expected" in page.text
    assert "No labels were given" in page.text


def test_report_refuses_another_number_of_outcomes_than_the_model_has(election):
    model, bags, y = election
    two = y.assign(blue=y["blue"] + y["none"])[["red", "blue"]]
    with pytest.raises(BagDataError, match=r"the model has 3 outcomes .*but y states 2"):
        collect(model, bags, two, None)


def test_bagwise_report_and_evaluate_take_shares_of_several_outcomes(election, tmp_path):
    _, bags, y = election
    cells = pd.DataFrame(np.asarray(bags.X), columns=["young", "old"]).assign(
        precinct=np.array(bags.ids)[bags.index], people=bags.weight
    )
    table = cells.join(y, on="precinct")
    table.to_csv(tmp_path / "votes.csv", index=False)
    names = ("--bag", "precinct", "--fraction", "red,blue,none")
    fit = ("fit", str(tmp_path / "votes.csv"), *names, "--weight", "people", "--features", "young,old")
    settings = ("--set", "learn=False", "--set", "group_effect=0.1", "--set", "confidence=1e5")
    files = (str(tmp_path / "m"), str(tmp_path / "votes.csv"))
    for call in (
        (*fit, "-o", files[0], *settings),
        ("report", *files, *names, "-o", str(tmp_path / "r.html")),
        ("evaluate", *files, *names),
    ):
        done = CliRunner().invoke(app, call)
        assert done.exit_code == 0, done.output
    assert "Measures of outcomes" in done.output
    assert "Shares of none" in Page(tmp_path / "r.html").text
