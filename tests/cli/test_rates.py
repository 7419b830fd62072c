"""``fit --totals`` and ``bagwise rates``: from a table with one row per precinct to the rates of its groups."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused

from bagwise import BagGP, Bags
from bagwise.aggregates import group_table

SETTINGS = ("--set", "learn=false", "--set", "group_effect=0.2", "--set", "random_state=0")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    people = rng.integers(50, 200, (12, 2))
    votes = rng.binomial(people, [0.3, 0.6]).sum(1)
    table = pd.DataFrame(people, columns=["young", "old"])
    return table.assign(precinct=[f"{b:03}" for b in range(12)], votes=votes, income=rng.normal(size=12), state="A")


@pytest.fixture(scope="module")
def places(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rates")
    frame.to_csv(folder / "t.csv", index=False)
    fit = ("fit", folder / "t.csv", "--bag", "precinct", "--totals", "young,old", "--count", "votes", *SETTINGS)
    done(*fit, "-o", folder / "m")
    return folder


def expected(frame, **asked):
    bags, y = Bags.from_totals(frame, "precinct", ["young", "old"], label="votes")
    model = BagGP(evidence="count", learn=False, group_effect=0.2, random_state=0).fit(bags, y)
    return group_table(model, bags, y, **asked)


def test_rates_are_those_of_the_group_table(frame, places):
    shown = done("rates", places / "m", places / "t.csv", "--no-check", "-o", places / "rates.csv").stdout
    written = pd.read_csv(places / "rates.csv")
    table = expected(frame)
    np.testing.assert_allclose(written["mean"], table.mean.ravel(), atol=1e-6)
    np.testing.assert_allclose(written["most"], table.most.ravel())
    assert written["outcome"].tolist() == ["votes", "votes"]
    assert f"{table.mean[0, 0, 0]:.3f}" in shown


def test_rates_of_every_precinct_keep_its_name(frame, places):
    done("rates", places / "m", places / "t.csv", "--each", "--output", places / "each.csv")
    written = pd.read_csv(places / "each.csv", dtype={"set": str})
    assert written["set"].tolist() == np.repeat(frame["precinct"], 2).tolist()


def test_check_says_what_the_composition_as_a_feature_would_change(places):
    assert "composition" in done("rates", places / "m", places / "t.csv").stdout


def test_other_commands_read_the_totals_that_the_model_remembers(places):
    done("evaluate", places / "m", places / "t.csv")
    done("predict", places / "m", places / "t.csv", "--instances", places / "i.csv", "--bags", places / "b.csv")
    groups = pd.read_csv(places / "i.csv")
    assert groups["group"].tolist() == ["young", "old"] * 12
    assert len(pd.read_csv(places / "b.csv")) == 12


def test_covariates_are_features_only_where_they_are_named(frame, places, tmp_path):
    options = ("--bag", "precinct", "--totals", "young,old", "--count", "votes", *SETTINGS)
    said = done("fit", places / "t.csv", *options, "--features", "income", "-o", tmp_path / "m").stdout
    assert "24 instances, 3 features" in said
    done("rates", tmp_path / "m", places / "t.csv", "--no-check")


def test_what_does_not_go_with_totals_is_refused(places, tmp_path):
    fit = ("fit", places / "t.csv", "--bag", "precinct", "--count", "votes", "-o", tmp_path / "m")
    assert "--weight" in refused(*fit, "--totals", "young,old", "--meta", "state")
    assert "no column 'yong'" in refused(*fit, "--totals", "yong,old")
    np.savez(tmp_path / "t.npz", X=np.eye(2), bag=np.arange(2), y=np.arange(2))
    archive = ("fit", tmp_path / "t.npz", "--bag", "bag", "--count", "y", "-o", tmp_path / "m")
    assert "one row per bag" in refused(*archive, "--totals", "young,old")


def test_table_that_is_not_the_one_of_the_fit_is_refused(frame, places, tmp_path):
    frame.assign(votes=frame["votes"] + 1).to_csv(tmp_path / "other.csv", index=False)
    assert "not the bags that the model was fitted to" in refused("rates", places / "m", tmp_path / "other.csv")
