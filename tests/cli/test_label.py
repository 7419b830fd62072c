"""``bagwise label`` as a user starts it: what is refused, what is exported; the page itself is tested in labelling."""

import shlex
import sys

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused

import bagwise.labelling
import bagwise.labelling.server
from bagwise.datasets import make_bags
from bagwise.io import read_npz, read_table, write_npz
from bagwise.labelling.journal import Journal
from bagwise.labelling.question import TWO, Question

QUICK = ("--set", "n_inducing=8", "--set", "learn=false", "--set", "random_state=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of which half the bags are labelled, an archive of the same, and models of both."""
    folder = tmp_path_factory.mktemp("cells")
    bags, y, _ = make_bags(20, (2, 4), random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"])
    frame["slide"] = [f"s{number}" for number in bags.index]
    frame["cancer"] = np.where(bags.index < 10, np.where(y[bags.index] == 1, "yes", "no"), None)
    frame["plate"] = bags.index % 3
    frame.sample(frac=1, random_state=0).to_csv(folder / "cells.csv", index=False)
    write_npz(folder / "cells.npz", bags, np.where(np.arange(20) < 10, y, np.nan))
    columns = ("--bag", "slide", "--label", "cancer", "--ignore", "plate")
    done("fit", folder / "cells.csv", *columns, "-o", folder / "model", *QUICK)
    done("fit", folder / "cells.npz", "-o", folder / "plain", *QUICK)
    return folder


def test_exported_bags_are_fitted_by_the_command_that_is_printed(folder, tmp_path, monkeypatch):
    journal = Journal(tmp_path / "answers.jsonl", "bags", Question(TWO, ("no", "yes")))
    journal.answer("ann", ("s12", None), [1], None, False)
    journal.answer("ann", ("s13", None), [0], None, False)
    monkeypatch.chdir(tmp_path)
    options = ("--model", folder / "model", "--answers", tmp_path / "answers.jsonl", "--export", "labelled.csv")
    result = done("label", folder / "cells.csv", *options)
    table = read_table("labelled.csv", "slide")
    assert set(table.loc[table["slide"] == "s12", "cancer"]) == {"yes"}
    assert set(table.loc[table["slide"] == "s13", "cancer"]) == {"no"}
    assert table.groupby("slide")["cancer"].first().notna().sum() == 12
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("  bagwise fit")]
    assert "20 bags" in done(*shlex.split(line)[1:], *QUICK).stdout


@pytest.mark.parametrize(("data", "model"), [("cells.csv", "model"), ("cells.npz", "plain")])
def test_exported_instances_are_fitted_by_the_command_that_is_printed(folder, tmp_path, monkeypatch, data, model):
    question = Question(TWO, ("no", "yes") if model == "model" else ("negative (0)", "positive (1)"))
    frame = read_table(folder / "cells.csv", "slide")
    archive = read_npz(folder / "cells.npz")[0]
    bag = frame["slide"].iloc[5] if data == "cells.csv" else archive.ids[archive.index[archive.rows == 5][0]]
    Journal(tmp_path / "a.jsonl", "instances", question).answer("ann", (bag, 5), [0], None, False)
    monkeypatch.chdir(tmp_path)
    options = ("--what", "instances", "--model", folder / model, "--answers", "a.jsonl", "--export", "out.csv")
    result = done("label", folder / data, *options)
    assert read_table("out.csv").loc[5, "known"] == 0
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("  bagwise fit")]
    done(*shlex.split(line)[1:], *QUICK)


def test_address_with_token_is_printed_and_the_browser_is_opened(folder, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(bagwise.labelling.server, "serve", lambda make, host, port, ready: (make(4711), ready(4711)))
    result = done("label", folder / "cells.csv", "--model", folder / "model", "--answers", tmp_path / "a.jsonl")
    (url,) = opened
    assert url.startswith("http://127.0.0.1:4711/")
    assert len(url.rstrip("/").rsplit("/", 1)[1]) >= 20
    assert f"Open {url}" in result.stdout
    assert "0 answers are in" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "0.0.0.0"), "add --allow-other-machines if you want that"),
        (("--what", "cells"), "--what cells: expected bags or instances"),
        (("--strategy", "magic"), "--strategy magic: expected bald or entropy or random"),
        (("--image", "photo"), "there is no column 'photo'"),
        (("--answers", "nowhere/a.jsonl"), "there is no folder"),
    ],
)
def test_what_cannot_be_served_is_refused_with_one_line(folder, tmp_path, arguments, message):
    options = ("--model", folder / "model", "--answers", tmp_path / "a.jsonl", *arguments)
    assert message in refused("label", folder / "cells.csv", *options)


def test_missing_package_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "bagwise.labelling.server")
    monkeypatch.delattr(bagwise.labelling, "server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    options = ("--model", folder / "model", "--answers", tmp_path / "a.jsonl")
    assert "needs the package uvicorn: pip install 'bagwise[label]'" in refused("label", folder / "cells.csv", *options)
