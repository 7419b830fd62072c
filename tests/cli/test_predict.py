"""``bagwise predict``: tables of instances and bags."""

import numpy as np
import pytest
from tests.cli.command import done, refused
from tests.cli.tables import bags_of

import bagwise
from bagwise.io import read_table, write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_instances_come_in_the_order_of_the_table(folder, cells, tmp_path, suffix):
    done("predict", folder / "model", folder / "cells.csv", "--instances", tmp_path / f"out{suffix}")
    table = read_table(tmp_path / f"out{suffix}", "bag")
    assert list(table.columns) == ["bag", "row", "probability", "mean", "sd"]
    assert list(table["bag"]) == list(cells["slide"])
    assert list(table["row"]) == list(range(len(cells)))
    model = bagwise.load(folder / "model")
    alone = bagwise.Bags(cells[["u", "v", "w"]], np.arange(len(cells)))
    np.testing.assert_allclose(table["probability"], model.predict_instance_proba(alone)[:, 1], atol=1e-12)
    mean, variance = model.predict_latent(alone)
    np.testing.assert_allclose(table["mean"], mean, atol=1e-12)
    np.testing.assert_allclose(table["sd"], np.sqrt(variance), atol=1e-12)


def test_bags_are_written_or_printed(folder, cells, tmp_path):
    done("predict", folder / "model", folder / "cells.csv", "--bags", tmp_path / "bags.csv")
    table = read_table(tmp_path / "bags.csv", "bag")
    assert list(table.columns) == ["bag", "size", "probability", "prediction"]
    assert list(table["bag"]) == list(cells["slide"].unique())
    assert list(table["size"]) == list(cells["slide"].value_counts()[table["bag"]])
    np.testing.assert_array_equal(table["prediction"] == "yes", table["probability"] > 0.5)
    printed = done("predict", folder / "model", folder / "cells.csv").stdout
    assert all(name in printed for name in table["bag"])
    assert f"{table['probability'][0]:.4f}" in printed


def test_unlabelled_tables_with_other_columns_are_welcome(folder, cells, tmp_path):
    write_table(cells.assign(note="x")[["note", "w", "slide", "u", "v"]], tmp_path / "new.csv")
    done("predict", folder / "model", tmp_path / "new.csv", "--instances", tmp_path / "a.csv")
    done("predict", folder / "model", folder / "cells.csv", "--instances", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_the_flagship_is_the_default_and_the_table_of_bags_tells_fractions(counted, tmp_path):
    done("predict", counted / "fraction", counted / "x.csv", "--bags", tmp_path / "b.csv")
    table = read_table(tmp_path / "b.csv", "bag")
    model = bagwise.load(counted / "fraction")
    bags, _ = bags_of(read_table(counted / "x.csv", "slide"), "share")
    assert list(table.columns[4:]) == ["fraction", "fraction_low", "fraction_high"]
    np.testing.assert_allclose(table[["fraction", "fraction_low", "fraction_high"]].T, model.predict_fraction(bags))
    assert "fraction" in done("predict", counted / "known", counted / "x.csv").stdout


def test_prediction_needs_the_columns_of_the_fit(folder, cells, tmp_path):
    write_table(cells.drop(columns="v"), tmp_path / "x.csv")
    assert "no column 'v'" in refused("predict", folder / "model", tmp_path / "x.csv")
    write_table(cells.drop(columns="cancer"), tmp_path / "x.csv")
    assert "no column 'cancer'" in refused("evaluate", folder / "model", tmp_path / "x.csv")
    write_table(cells.assign(cancer="maybe"), tmp_path / "x.csv")
    assert "label 'maybe': expected 'no' or 'yes'" in refused("evaluate", folder / "model", tmp_path / "x.csv")
