"""The command line as a user meets it: files in, files out, one readable message when something is wrong."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused
from tests.cli.tables import QUICK, fit_arguments

import bagwise
from bagwise.datasets import make_bags
from bagwise.io import read_table, write_npz, write_table

# ---------------------------------------------------------------- the main road


def test_tables_of_several_labels_have_columns_for_each(two_labels, tmp_path):
    done("predict", two_labels / "two", two_labels / "numbers.parquet", "--instances", tmp_path / "i.csv",
         "--bags", tmp_path / "b.csv")  # fmt: skip
    assert list(pd.read_csv(tmp_path / "i.csv").columns) == [
        "bag", "row", "probability_cancer", "mean_cancer", "sd_cancer", "probability_other", "mean_other", "sd_other",
    ]  # fmt: skip
    assert list(pd.read_csv(tmp_path / "b.csv").columns) == [
        "bag", "size", "probability_cancer", "prediction_cancer", "probability_other", "prediction_other",
    ]  # fmt: skip
    result = done("evaluate", two_labels / "two", two_labels / "numbers.parquet")
    assert "cancer" in result.stdout
    done("report", two_labels / "two", two_labels / "numbers.parquet", "-o", tmp_path / "r.html")


def test_an_archive_needs_no_columns(tmp_path):
    bags, y, instance_y = make_bags(20, 4, 2, random_state=1)
    write_npz(tmp_path / "x.npz", bags, y, instance_y)
    done("fit", tmp_path / "x.npz", "--model", "mil-gp-probit", "-o", tmp_path / "model", *QUICK)
    result = done("evaluate", tmp_path / "model", tmp_path / "x.npz")
    assert "instances" in result.stdout
    done("predict", tmp_path / "model", tmp_path / "x.npz", "--bags", tmp_path / "b.csv")
    assert list(read_table(tmp_path / "b.csv", "bag")["bag"]) == list(bags.ids)


def test_an_archive_of_several_labels_by_another_name(tmp_path):
    bags, y, instance_y = make_bags(20, 4, 2, random_state=1)
    sets = np.stack([y, 1 - y], axis=1)
    np.savez(
        tmp_path / "x.npz",
        X=bags.X,
        bag=bags.index,
        y=y,
        sets=sets,
        class_names=["in", "out"],
        instance_y=1 - instance_y,
    )
    done("fit", tmp_path / "x.npz", "--model", "mil-gp-probit", "--label", "sets", "-o", tmp_path / "model", *QUICK)
    printed = done("evaluate", tmp_path / "model", tmp_path / "x.npz", "--json", tmp_path / "m.json").stdout
    assert "Measures of instances" in printed
    found = json.loads((tmp_path / "m.json").read_text())
    assert list(found["bags"]) == ["in", "out", "mean of columns"]
    assert found["instances"]["in"]["positive_share"] == pytest.approx(instance_y.mean())


def test_names_are_printed_as_they_are(folder, cells, tmp_path):
    write_table(cells.replace({"slide": {"000": "[red]x[/red]"}}), tmp_path / "odd.csv")
    assert "[red]x[/red]" in done("predict", folder / "model", tmp_path / "odd.csv").stdout


def test_long_lists_are_cut_and_say_so(folder, cells, tmp_path):
    many = cells.assign(slide=[f"s{number}" for number in range(len(cells))])
    write_table(pd.concat([many, many.assign(slide="t" + many["slide"])]), tmp_path / "many.csv")
    assert f"and {2 * len(cells) - 100} more" in done("predict", folder / "model", tmp_path / "many.csv").stdout


def test_models_are_listed_with_their_evidence_and_source():
    printed = done("models").stdout
    for name, model in bagwise.models.discover().items():
        assert name in printed
        assert model.card.evidence[0] in printed


# ---------------------------------------------------------------- refusals


def test_outputs_are_checked_before_the_work(folder, tmp_path):
    data, model, nowhere = folder / "cells.csv", folder / "model", tmp_path / "no" / "such"
    for arguments in (
        fit_arguments(data, nowhere),
        ("predict", model, data, "--bags", nowhere.with_suffix(".csv")),
        ("evaluate", model, data, "--json", nowhere),
        ("report", model, data, "-o", nowhere),
    ):
        assert "there is no folder" in refused(*arguments)
    assert "is a folder" in refused("report", model, data, "-o", tmp_path)
    assert "must end in .csv" in refused("predict", model, data, "--instances", tmp_path / "out.txt")


def test_foreign_model_files_are_refused(folder, tmp_path):
    (tmp_path / "model").write_bytes(b"this is not a model")
    assert "not a readable model file" in refused("predict", tmp_path / "model", folder / "cells.csv")
    assert "No such file" in refused("predict", tmp_path / "absent", folder / "cells.csv")


# ---------------------------------------------------------------- real processes


def process(*arguments):
    command = [sys.executable, "-m", "bagwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_real_process_predicts(folder):
    result = process("predict", folder / "model", folder / "cells.csv")
    assert (result.returncode, result.stderr) == (0, "")
    assert "probability" in result.stdout


def test_a_real_process_refuses_without_a_traceback(tmp_path):
    result = process("predict", tmp_path / "absent", tmp_path / "absent.csv")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("bagwise: ")
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1
