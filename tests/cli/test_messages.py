"""What the command line says of a fit."""

import pandas as pd
import pytest
from tests.cli.command import done

import bagwise
from bagwise.datasets import make_bags
from bagwise.exceptions import NumericalError
from bagwise.inference.expectation_propagation import ExpectationPropagation


@pytest.fixture
def table(tmp_path):
    bags, y, _ = make_bags(12, bag_size=4, random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"]).assign(slide=[bags.ids[b] for b in bags.index], sick=y[bags.index])
    frame.to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


FIT = ("--bag", "slide", "--label", "sick", "--set", "learn=false", "--set", "verbose=0", "--set", "random_state=0")


@pytest.mark.filterwarnings("default::bagwise.ConvergenceWarning")
def test_fit_says_that_another_inference_answered(table, tmp_path, monkeypatch):
    def give_up(self):
        raise NumericalError("broken on purpose")

    monkeypatch.setattr(ExpectationPropagation, "step", give_up)
    said = done("fit", table, *FIT, "-o", tmp_path / "m").stdout
    assert "iterations of vi (settled; expectation propagation failed (broken on purpose)" in said


def test_fit_says_nothing_of_another_inference_where_there_was_none(table, tmp_path):
    said = done("fit", table, *FIT, "-o", tmp_path / "m").stdout
    assert "iterations of ep (settled)" in said


def test_fit_says_what_size_itself_does(tmp_path):
    bags, y, _ = make_bags(20, bag_size=(2, 9), random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"]).assign(slide=[bags.ids[b] for b in bags.index], sick=y[bags.index])
    frame.to_csv(tmp_path / "x.csv", index=False)
    said = done("fit", tmp_path / "x.csv", *FIT, "--set", "size_effect=true", "-o", tmp_path / "m").stdout
    effect = bagwise.load(tmp_path / "m").size_effect_
    assert f"effect of log size on every instance of a bag: {effect.mean:.2f} ± {effect.sd:.2f}\n" in said
