"""``bagwise evaluate``: measures of labels, fractions and counts."""

import json
import warnings

import numpy as np
import pytest
from tests.cli.command import done, refused
from tests.cli.tables import FIXED, bags_of

import bagwise
from bagwise import MILGPProbit
from bagwise.datasets import make_bags
from bagwise.io import read_table, write_table
from bagwise.metrics import bag_report, count_report, fraction_report, instance_report


def test_evaluation_agrees_with_the_metrics(folder, cells, tmp_path):
    result = done(
        "evaluate", folder / "model", folder / "cells.csv", "--instance-label", "bad", "--json", tmp_path / "m.json"
    )
    found = json.loads((tmp_path / "m.json").read_text())
    bags, y, bad = bagwise.Bags.from_frame(
        cells.drop(columns="other"), bag="slide", label="cancer", instance_label="bad"
    )
    model = bagwise.load(folder / "model")
    assert found["model"] == "mil-gp-probit"
    assert found["bags"] == pytest.approx(bag_report(y == "yes", model.predict_proba(bags)[:, 1]))
    assert found["instances"] == pytest.approx(instance_report(bad, model.predict_instance_proba(bags)[:, 1]))
    assert f"{found['bags']['auc']:.3f}" in result.stdout
    assert f"{found['instances']['brier']:.3f}" in result.stdout


def test_instances_may_be_judged_without_bag_labels(folder, cells, tmp_path):
    write_table(cells.drop(columns="cancer"), tmp_path / "x.csv")
    printed = done("evaluate", folder / "model", tmp_path / "x.csv", "--instance-label", "bad").stdout
    assert "instances" in printed
    assert "bags" not in printed


def test_a_model_fitted_in_python_needs_its_columns_named(cells, tmp_path):
    bags, y = bagwise.Bags.from_frame(cells, bag="slide", label="cancer", features=["u", "v"])
    plain = bagwise.Bags(bags.X, bags.index)
    MILGPProbit(n_inducing=5, max_iter=2, random_state=0).fit(plain, y).save(tmp_path / "model")
    write_table(cells[["u", "v", "slide", "cancer"]], tmp_path / "x.csv")
    assert "Name it with --bag" in refused("predict", tmp_path / "model", tmp_path / "x.csv")
    write_table(cells[["u", "v", "slide"]], tmp_path / "new.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = done("predict", tmp_path / "model", tmp_path / "new.csv", "--bag", "slide")
        done("evaluate", tmp_path / "model", tmp_path / "x.csv", "--bag", "slide", "--label", "cancer")
    assert "bagwise: warning: X has feature names" in result.stderr
    assert ".py" not in result.stderr


def test_undefined_measures_are_null_in_json(folder, cells, tmp_path):
    write_table(cells[cells["cancer"] == "yes"], tmp_path / "one.csv")
    done("evaluate", folder / "model", tmp_path / "one.csv", "--json", tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["bags"]["auc"] is None


def evaluated(model, data, folder, *more):
    done("evaluate", model, data, "--json", folder / "m.json", *more)
    return json.loads((folder / "m.json").read_text())


def test_fractions_are_evaluated(counted, tmp_path):
    found = evaluated(counted / "fraction", counted / "x.csv", tmp_path, "--instance-label", "bad")
    bags, share = bags_of(read_table(counted / "x.csv", "slide"), "share")
    model = bagwise.load(counted / "fraction")
    assert found["fractions"] == pytest.approx(fraction_report(share, *model.predict_fraction(bags), bags.sizes))
    assert found["fractions"]["missing"] == 1
    assert "bags" not in found  # whether a bag holds any positive is not what fractions are about
    assert found["instances"]["n"] == bags.n_instances


def test_counts_are_evaluated(counted, tmp_path):
    found = evaluated(counted / "count", counted / "x.csv", tmp_path)
    bags, ends = bags_of(read_table(counted / "x.csv", "slide"), "lo", "hi")
    model, (lo, hi) = bagwise.load(counted / "count"), ends.T
    expected, sizes = model.predict_fraction(bags), bags.sizes
    chance = model.predict_count_proba(bags, lo, hi)
    assert found["counts"] == pytest.approx(
        count_report(lo, hi, chance, expected.lower * sizes, expected.upper * sizes)
    )
    assert "bags" not in found


def test_any_truth_will_do_for_any_model(counted, folder, tmp_path):
    data = counted / "x.csv"
    assert evaluated(counted / "known", data, tmp_path, "--fraction", "share")["fractions"]["n"] == 23
    assert evaluated(counted / "fraction", data, tmp_path, "--label", "label")["bags"]["n"] == 24
    assert evaluated(counted / "fraction", data, tmp_path, "--count", "lo,hi")["counts"]["n"] == 24
    assert list(evaluated(folder / "model", data, tmp_path, "--fraction", "share")) == ["model", "bags"]
    assert evaluated(counted / "known", data, tmp_path, "--count", "lo")["counts"]["n"] == 24
    assert "not from several" in refused("report", counted / "known", data, "--label", "label", "--fraction", "share",
                                         "-o", tmp_path / "r.html")  # fmt: skip


def test_archives_name_arrays(tmp_path):
    bags, y, instance_y = make_bags(20, 4, 2, random_state=1)
    numbers = np.add.reduceat(instance_y, bags.offsets[:-1])
    ends = np.stack([numbers, np.full(20, 4)], axis=1)
    seen = np.where(np.arange(80) % 3 == 0, instance_y, -1)
    arrays = {"share": numbers / 4, "ends": ends, "lo": ends[:, 0], "hi": ends[:, 1], "seen": seen}
    np.savez(tmp_path / "x.npz", X=bags.X, bag=bags.index, y=y, **arrays)
    np.savez(tmp_path / "plain.npz", X=bags.X, bag=bags.index, y=y)
    found = []
    for options in (("--count", "ends"), ("--count", "lo,hi"), ("--fraction", "share"), ("--known", "seen")):
        done("fit", tmp_path / "x.npz", "-o", tmp_path / "model", *options, *FIXED)
        found.append(evaluated(tmp_path / "model", tmp_path / "x.npz", tmp_path))
    assert found[0] == found[1]
    assert [list(report)[-1] for report in found] == ["counts", "counts", "fractions", "bags"]
    done("fit", tmp_path / "x.npz", "-o", tmp_path / "model", "--fraction", "share", *FIXED)
    done("report", tmp_path / "model", tmp_path / "plain.npz", "-o", tmp_path / "r.html")
    assert "No labels were given" in (tmp_path / "r.html").read_text()  # y is not what the model was fitted to
    assert "no array 'share'" in refused("evaluate", tmp_path / "model", tmp_path / "plain.npz")
