"""Tables, and models fitted to them by the command line."""

import h5py
import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done
from tests.cli.slide_files import GRID
from tests.cli.tables import FIXED, QUICK

from bagwise.datasets import make_bags
from bagwise.io import read_table, write_table


@pytest.fixture(scope="package")
def cells():
    """A table in no particular order, with text labels, keys that look like numbers and labels of instances."""
    bags, y, instance_y = make_bags(24, (3, 6), 3, random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v", "w"])
    frame["slide"] = [f"{number:03d}" for number in bags.index]
    frame["cancer"] = np.where(y[bags.index] == 1, "yes", "no")
    frame["other"] = (bags.index % 2).astype(int)
    frame["bad"] = instance_y
    return frame.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture(scope="package")
def folder(tmp_path_factory, cells):
    """The table as CSV, and a model fitted to it by the command line."""
    folder = tmp_path_factory.mktemp("cells")
    write_table(cells, folder / "cells.csv")
    result = done(
        "fit", folder / "cells.csv", "--model", "mil-gp-probit", "--bag", "slide", "--label", "cancer",
        "--ignore", "bad,other", "-o", folder / "model", *QUICK,
    )  # fmt: skip
    assert "24 bags" in result.stdout
    assert "3 features; 4 iterations (not settled)" in result.stdout
    return folder


@pytest.fixture(scope="package")
def two_labels(folder):
    frame = read_table(folder / "cells.csv", "slide")
    write_table(frame.assign(cancer=(frame["cancer"] == "yes").astype(int)), folder / "numbers.parquet")
    done(
        "fit", folder / "numbers.parquet", "--model", "mil-gp-probit", "--bag", "slide", "--label", "cancer,other",
        "--features", "u,v,w", "-o", folder / "two", *QUICK,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="package")
def counted(tmp_path_factory, cells):
    """The table with fractions (one missing), ranges and a few known instances, and a model of each."""
    folder = tmp_path_factory.mktemp("counted")
    by_slide = cells.groupby("slide")["bad"]
    numbers, sizes = by_slide.transform("sum"), by_slide.transform("size")
    frame = cells.assign(
        share=(numbers / sizes).round(2).mask(cells["slide"] == "003"),
        lo=(numbers - 1).clip(lower=0),
        hi=np.minimum(numbers + 1, sizes),
        seen=cells["bad"].where(cells.index % 5 == 0),
        label=(numbers > 0).astype(int),
    )
    write_table(frame, folder / "x.csv")
    for name, options in {
        "fraction": ("--fraction", "share"),
        "count": ("--count", "lo,hi"),
        "known": ("--label", "label", "--known", "seen"),
    }.items():
        arguments = ("--bag", "slide", "--features", "u,v,w", *options, *FIXED)
        assert "BagGP: 24 bags" in done("fit", folder / "x.csv", "-o", folder / name, *arguments).stdout
    return folder


@pytest.fixture(scope="package")
def slides(tmp_path_factory):
    """Twelve slides of six patients, 12 tiles each, written as h5, their table, and a model of them."""
    there = tmp_path_factory.mktemp("slides")
    rng = np.random.default_rng(0)
    (there / "features").mkdir()
    rows = []
    for number in range(12):
        tumour = (number // 2) % 2
        X = rng.normal(size=(12, 3)).astype(np.float32)
        X[: 4 * tumour, 0] += 3.0
        name = f"{number:04d}"
        with h5py.File(there / "features" / f"{name}.h5", "w") as file:
            file["features"] = X
            file.create_dataset("coords", data=GRID).attrs["patch_size"] = 256
        rows.append({"slide_id": name, "patient": f"P{number // 2}", "tumour": tumour})
    pd.DataFrame(rows).to_csv(there / "slides.csv", index=False)
    columns = ("--table", there / "slides.csv", "--bag", "slide_id", "--label", "tumour", "--group", "patient")
    settings = ("--model", "mil-gp-probit", "--set", "random_state=0", "--set", "n_inducing=20")
    done("fit", there / "features", *columns, *settings, "-o", there / "model")
    return there
