"""What the command line says of a fit."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done

import bagwise
from bagwise.datasets import make_bags
from bagwise.exceptions import NumericalError
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.report.content import outcome


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


def test_fit_says_what_the_search_for_a_kernel_gained_from_every_start_where_the_usual_one_gained_too_little(tmp_path):
    """One of two instances is positive in every bag, which tells nothing."""
    x = np.random.default_rng(0).uniform(-1.7, 1.7, 40)
    pd.DataFrame({"x": x, "slide": np.arange(40) // 2, "k": 1}).to_csv(tmp_path / "x.csv", index=False)
    quiet = ("--set", "verbose=0", "--set", "random_state=0", "--set", "n_inducing=20")
    said = done("fit", tmp_path / "x.csv", "--bag", "slide", "--count", "k,k", *quiet, "-o", tmp_path / "m").stdout
    assert (
        "learning the kernel: 5 starts gained 0.0, 0.0, 0.0, 0.0, 0.0 nats of log evidence; that is too little to tell "
        "kernels apart, so the first one stays\n"
    ) in said
    rows = dict(outcome(bagwise.load(tmp_path / "m")).rows)
    assert rows["starts of the search for the kernel"].startswith("5 starts gained 0.0, 0.0")
    assert "kernel" in rows
