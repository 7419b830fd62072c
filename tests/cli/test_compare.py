"""``bagwise compare`` as a user meets it."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused, run

import bagwise.compare.run
from bagwise.bench.description import Model
from bagwise.cli.compare import how_to_fit
from bagwise.compare import ComparisonResult
from bagwise.datasets import make_bags
from bagwise.io import write_npz

FAST = ("--jobs", 1, "--folds", 2, "--set", "mil-gp-probit.n_inducing=8", "--models", "mil-gp-probit,vgpmil")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    bags, y, instance_y = make_bags(24, (3, 5), random_state=1)
    frame = pd.DataFrame(bags.X, columns=["u", "v"])
    frame["slide"] = [f"s{number}" for number in bags.index]
    frame["patient"] = bags.index // 2
    frame["tumour"] = np.where(y[bags.index] == 1, "yes", "no")
    frame["cell"] = instance_y
    frame.sample(frac=1, random_state=0).to_csv(folder / "cells.csv", index=False)
    write_npz(folder / "cells.npz", bags, y)
    return folder


def test_compare_prints_tables_writes_a_page_and_the_printed_command_fits(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = ("--bag", "slide", "--label", "tumour", "--group", "patient", "--instance-label", "cell")
    result = done("compare", folder / "cells.csv", *columns, *FAST)
    assert "against the others" in result.stdout
    assert all((tmp_path / "compare" / f"comparison.{kind}").stat().st_size for kind in ("csv", "png", "html"))
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("  bagwise fit")]
    assert "cell,patient" in line  # numbers, which would be taken for features
    done(*shlex.split(line)[1:])
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_baseline_that_is_best_is_fitted_by_the_same_command():
    model = Model("bag-statistics-svm", "BagStatisticsSVM", {"cv": 2})
    sizes = {"test": 1, "train": 2}
    record = {"model": model.name, "repeat": 0, "fold": 0, "metrics": {"bags": {"bag auc": 1.0}}, "sizes": sizes}
    result = ComparisonResult((model,), ("bag auc",), "bag auc", 1, (record,))
    (line,) = how_to_fit(result, Path("cells.csv"), {"--bag": "slide"})
    assert line == (
        "bagwise fit cells.csv --model bag-statistics-svm --bag slide --set cv=2 -o bag-statistics-svm.safetensors"
    )


def test_same_command_again_measures_nothing(folder, tmp_path):
    command = ("compare", folder / "cells.npz", "-o", tmp_path / "out", *FAST)
    done(*command)
    lines = (tmp_path / "out" / "compare.jsonl").read_text()
    assert len(lines.splitlines()) == 4
    done(*command)
    assert (tmp_path / "out" / "compare.jsonl").read_text() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--models", "fox"), "--models fox: there is no such model"),
        (("--set", "n_inducing=3"), "--set n_inducing=3: expected MODEL.NAME=VALUE"),
        (("--set", "bag-gp.foxes=3"), "BagGP has no setting 'foxes'"),
        (("--group", "family"), "there is no column 'family'"),
        (("--folds", 30), "--folds 30: there are only 24 bags with evidence"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_one_line(folder, tmp_path, arguments, message):
    columns = ("--bag", "slide", "--label", "tumour", "--ignore", "cell,patient", "-o", tmp_path / "out")
    assert message in refused("compare", folder / "cells.csv", *columns, *arguments)


def test_group_that_an_archive_lacks_is_refused(folder, tmp_path):
    assert "the archive has no array 'patient'; it holds 'bag'" in refused(
        "compare", folder / "cells.npz", "--group", "patient", "-o", tmp_path / "out"
    )


def test_ctrl_c_says_how_to_go_on(folder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(bagwise.compare.run, "compare_models", interrupted)
    result = run("compare", folder / "cells.npz", "-o", tmp_path)
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr
