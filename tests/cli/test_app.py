"""The command line as a user meets it: files in, files out, one readable message when something is wrong."""

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused

import bagwise
from bagwise import BagGP, Bags, MILGPProbit
from bagwise.active import suggest
from bagwise.cli.options import parse_settings, parse_value
from bagwise.datasets import make_bags
from bagwise.exceptions import BagDataError
from bagwise.io import read_table, write_npz, write_table
from bagwise.metrics import bag_report, count_report, fraction_report, instance_report
from bagwise.models import load_with_notes

QUICK = ("--set", "n_inducing=10", "--set", "max_iter=4", "--set", "random_state=0")


@pytest.fixture(scope="module")
def cells():
    """A table in no particular order, with text labels, keys that look like numbers and labels of instances."""
    bags, y, instance_y = make_bags(24, (3, 6), 3, random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v", "w"])
    frame["slide"] = [f"{number:03d}" for number in bags.index]
    frame["cancer"] = np.where(y[bags.index] == 1, "yes", "no")
    frame["other"] = (bags.index % 2).astype(int)
    frame["bad"] = instance_y
    return frame.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def two_labels(folder):
    frame = read_table(folder / "cells.csv", "slide")
    write_table(frame.assign(cancer=(frame["cancer"] == "yes").astype(int)), folder / "numbers.parquet")
    done(
        "fit", folder / "numbers.parquet", "--model", "mil-gp-probit", "--bag", "slide", "--label", "cancer,other",
        "--features", "u,v,w", "-o", folder / "two", *QUICK,
    )  # fmt: skip
    return folder


# ---------------------------------------------------------------- the main road


def test_the_model_file_remembers_its_columns(folder):
    model, columns = load_with_notes(folder / "model")
    assert columns == {"bag": "slide", "known": None, "label": ["cancer"], "arrays": []}
    assert list(model.feature_names_in_) == ["u", "v", "w"]
    assert model.get_params()["n_inducing"] == 10


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


def test_a_report_with_and_without_labels(folder, cells, tmp_path):
    page = tmp_path / "r.html"
    done("report", folder / "model", folder / "cells.csv", "--instance-label", "bad", "-o", page, "--title", "Slides")
    assert "Slides" in page.read_text()
    assert "instance AUC" in page.read_text()
    write_table(cells.drop(columns="cancer"), tmp_path / "unlabelled.csv")
    done("report", folder / "model", tmp_path / "unlabelled.csv", "-o", page, "--image-shape", "1,3")
    assert "No labels were given" in page.read_text()


def test_report_shows_class_names_and_metadata_of_whole_bags(folder, tmp_path):
    done("report", folder / "model", folder / "cells.csv", "--meta", "other,bad", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert re.search(
        r'<th scope="col">probability of yes</th><th scope="col">label</th><th scope="col">other</th>', page
    )
    assert {row[3] for row in json.loads(re.search(r'id="bag-data">(.*?)</script>', page)[1])["rows"]} == {"yes", "no"}
    assert '<th scope="col">bad</th>' not in page  # it differs inside of bags
    assert "bad 1" in page


def test_several_labels(two_labels, tmp_path):
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


def test_models_are_listed():
    printed = done("models").stdout
    for name, model in bagwise.models.discover().items():
        assert name in printed
        assert model.card.evidence[0] in printed


def test_the_demo_finds_the_nine(tmp_path):
    result = done("demo", "--output", tmp_path / "new" / "demo")
    assert "AUC" in result.stdout
    assert str(tmp_path / "new" / "demo" / "report.html") in result.stdout.replace("\n", "")
    page = (tmp_path / "new" / "demo" / "report.html").read_text()
    assert "Which bags hold a 9?" in page
    assert len(page) < 400_000
    assert isinstance(bagwise.load(tmp_path / "new" / "demo" / "model.safetensors"), BagGP)
    assert "kernel, learned" in page


# ---------------------------------------------------------------- what to label next


def test_suggestions_are_those_of_the_library(folder, cells, tmp_path):
    model = bagwise.load(folder / "model")
    bags = bagwise.Bags.from_frame(cells[["u", "v", "w", "slide"]], "slide")
    for strategy in ("bald", "entropy"):
        found = suggest(model, bags, n=4, strategy=strategy)
        done(
            "suggest", folder / "model", folder / "cells.csv", "-n", 4, "--strategy", strategy, "-o", tmp_path / "s.csv"
        )
        table = read_table(tmp_path / "s.csv", "bag")
        assert list(table["bag"]) == list(found.ids)
        np.testing.assert_allclose(table["utility"], found.gains, atol=1e-12)
    printed = done("suggest", folder / "model", folder / "cells.csv", "-n", 4).stdout
    assert all(name in printed for name in suggest(model, bags, n=4).ids)


def test_suggested_instances_name_their_rows(folder, cells, tmp_path):
    arguments = ("suggest", folder / "model", folder / "cells.csv", "-n", 3, "--what", "instances")
    done(*arguments, "-o", tmp_path / "s.parquet")
    table = read_table(tmp_path / "s.parquet", "bag")
    assert list(table["bag"]) == list(cells["slide"][table["row"]])
    assert str(table["row"][0]) in done(*arguments).stdout


def test_bags_without_a_label_are_suggested_first(folder, cells, tmp_path):
    open_slides = {"003", "007", "011"}
    write_table(cells.assign(cancer=cells["cancer"].mask(cells["slide"].isin(open_slides))), tmp_path / "some.csv")
    done("suggest", folder / "model", tmp_path / "some.csv", "-n", 3, "-o", tmp_path / "s.csv")
    assert set(read_table(tmp_path / "s.csv", "bag")["bag"]) == open_slides
    assert "only 3 bags" in refused("suggest", folder / "model", tmp_path / "some.csv", "-n", 4)
    write_table(cells.drop(columns="cancer"), tmp_path / "none.csv")
    done("suggest", folder / "model", tmp_path / "none.csv", "-n", 24)


def test_suggestions_for_several_labels_and_archives(two_labels, tmp_path):
    frame = read_table(two_labels / "numbers.parquet", "slide")
    first = frame["slide"].iloc[0]
    write_table(frame.assign(other=frame["other"].mask(frame["slide"] == first)), tmp_path / "x.parquet")
    done("suggest", two_labels / "two", tmp_path / "x.parquet", "-o", tmp_path / "s.csv")
    assert list(read_table(tmp_path / "s.csv", "bag")["bag"]) == [first]
    bags, y, _ = make_bags(20, 4, 2, random_state=1)
    write_npz(tmp_path / "x.npz", bags, y)
    done("fit", tmp_path / "x.npz", "--model", "mil-gp-probit", "-o", tmp_path / "model", *QUICK)
    done("suggest", tmp_path / "model", tmp_path / "x.npz", "--strategy", "random", "-n", 2)


def test_bad_questions_are_refused(folder, tmp_path):
    arguments = ("suggest", folder / "model", folder / "cells.csv")
    assert "there are only 24 bags" in refused(*arguments, "-n", 25)
    assert "n=0: expected a whole number" in refused(*arguments, "-n", 0)
    assert "what='rows': expected one of" in refused(*arguments, "--what", "rows")
    assert "strategy='best': expected one of" in refused(*arguments, "--strategy", "best")
    assert "must end in .csv" in refused(*arguments, "-o", tmp_path / "s.txt")
    assert "there is no folder" in refused(*arguments, "-o", tmp_path / "no" / "s.csv")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- fractions, counts, known instances

FIXED = ("--set", "learn=false", "--set", "n_inducing=10", "--set", "random_state=0")


@pytest.fixture(scope="module")
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


def bags_of(frame, *columns):
    ignored = [name for name in frame.columns if name not in ("u", "v", "w", "slide", *columns)]
    bags, y = Bags.from_frame(frame, "slide", label=list(columns), ignore=ignored)
    return bags, y[:, 0] if len(columns) == 1 else y


def evaluated(model, data, folder, *more):
    done("evaluate", model, data, "--json", folder / "m.json", *more)
    return json.loads((folder / "m.json").read_text())


def test_the_evidence_options_fit_what_python_fits(counted):
    frame = read_table(counted / "x.csv", "slide")
    settings = {"learn": False, "n_inducing": 10, "random_state": 0}
    for name, columns in {"fraction": ["share"], "count": ["lo", "hi"]}.items():
        bags, y = bags_of(frame, *columns)
        (model, noted), alone = load_with_notes(counted / name), BagGP(evidence=name, **settings).fit(bags, y)
        assert (model.evidence, noted[name]) == (name, columns)
        np.testing.assert_allclose(model.predict_proba(bags), alone.predict_proba(bags), atol=1e-12)
    bags, y = bags_of(frame, "label")
    informed = BagGP(**settings).fit(bags.with_known(frame["seen"].to_numpy()[bags.rows]), y)
    model, columns = load_with_notes(counted / "known")
    assert columns["known"] == "seen"
    np.testing.assert_allclose(model.predict_proba(bags), informed.predict_proba(bags), atol=1e-12)


def test_the_flagship_is_the_default_and_the_table_of_bags_tells_fractions(counted, tmp_path):
    done("predict", counted / "fraction", counted / "x.csv", "--bags", tmp_path / "b.csv")
    table = read_table(tmp_path / "b.csv", "bag")
    model = bagwise.load(counted / "fraction")
    bags, _ = bags_of(read_table(counted / "x.csv", "slide"), "share")
    assert list(table.columns[4:]) == ["fraction", "fraction_low", "fraction_high"]
    np.testing.assert_allclose(table[["fraction", "fraction_low", "fraction_high"]].T, model.predict_fraction(bags))
    assert "fraction" in done("predict", counted / "known", counted / "x.csv").stdout


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


def test_reports_of_fractions_and_counts(counted, tmp_path):
    for name, words in {"fraction": "Measures of fractions", "count": "Measures of counts"}.items():
        done("report", counted / name, counted / "x.csv", "-o", tmp_path / "r.html")
        assert words in (tmp_path / "r.html").read_text()
    write_table(read_table(counted / "x.csv", "slide")[["slide", "u", "v", "w"]], tmp_path / "new.csv")
    done("report", counted / "fraction", tmp_path / "new.csv", "-o", tmp_path / "r.html")
    assert "No labels were given" in (tmp_path / "r.html").read_text()
    assert "no column 'share'" in refused("evaluate", counted / "fraction", tmp_path / "new.csv")


def test_only_what_is_not_known_is_suggested(counted, tmp_path):
    done("suggest", counted / "fraction", counted / "x.csv", "-o", tmp_path / "s.csv")
    assert list(read_table(tmp_path / "s.csv", "bag")["bag"]) == ["003"]
    done("suggest", counted / "known", counted / "x.csv", "--what", "instances", "-n", 20, "-o", tmp_path / "s.csv")
    assert (read_table(tmp_path / "s.csv", "bag")["row"] % 5 > 0).all()


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fraction", "share", "--model", "mil-gp-probit"), "--fraction share: mil-gp-probit takes label; "),
        (("--fraction", "share", "--model", "mil-gp-probit"), "is for bag-gp"),
        (("--label", "label", "--known", "seen", "--model", "mil-gp-probit"), "--known seen: mil-gp-probit takes"),
        (("--fraction", "share", "--set", "evidence=count"), "--set evidence=count: contradicts --fraction share"),
        (("--label", "label", "--fraction", "share"), "--label label and --fraction share: what is known"),
        (("--count", "lo,hi,share"), "3 outcomes add up to"),
        (("--fraction", "share,lo"), "2 outcomes add up to"),
        (("--known", "seen"), "nothing is stated about the bags"),
        (("--fraction", "cancer"), "y must hold numbers"),
        (("--fraction", "other2"), "no column 'other2'"),
        (("--label", "label", "--known", "other2"), "no column 'other2'"),
        (("--label", "label", "--known", "u"), "column 'u' is named both"),
        (("--label", "label", "--known", "hi"), "column 'hi': known: row"),
        (("--fraction", "hi"), "a fraction lies in [0, 1]"),
        (("--count", "hi,lo"), "the lowest number of positives must not exceed the highest"),
        (("--fraction", "bad"), "varies inside the bag"),
    ],
)
def test_evidence_that_cannot_be_used(counted, tmp_path, options, message):
    arguments = ("--bag", "slide", "--features", "u,v,w", "-o", tmp_path / "model", *options)
    assert message in refused("fit", counted / "x.csv", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_same_evidence_said_twice_is_no_contradiction(counted, tmp_path):
    done("fit", counted / "x.csv", "--bag", "slide", "--features", "u,v,w", "--fraction", "share", "-o",
         tmp_path / "model", "--set", "evidence=fraction", "--set", "confidence=50", *FIXED)  # fmt: skip
    assert bagwise.load(tmp_path / "model").confidence == 50.0


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("5", 50, 5),
        ("5", 0.0, 5.0),
        ("1e-3", 1e-6, 1e-3),
        ("None", 25, None),
        ("true", True, True),
        ("False", True, False),
        ("matern32", "rbf", "matern32"),
        ("0.5", None, 0.5),
        ("1,2.5", 1000.0, [1.0, 2.5]),
        ("a,b", None, "a,b"),
    ],
)
def test_values_are_read_as_what_they_are(text, default, value):
    parsed = parse_value(text, default)
    assert parsed == value
    assert type(parsed) is type(value)


def test_settings_are_checked_against_the_model():
    assert parse_settings(["bias=5", "kernel=linear"], MILGPProbit) == {"bias": 5.0, "kernel": "linear"}
    with pytest.raises(BagDataError, match=r"no setting 'biass'; it has inference, n_inducing"):
        parse_settings(["biass=5"], MILGPProbit)
    with pytest.raises(BagDataError, match="expected name=value"):
        parse_settings(["bias"], MILGPProbit)
    with pytest.raises(BagDataError, match="no setting 'callback'"):
        parse_settings(["callback=print"], MILGPProbit)
    with pytest.raises(BagDataError, match="no setting 'feature_map'"):
        parse_settings(["feature_map=net"], BagGP)


# ---------------------------------------------------------------- refusals


def fit_arguments(data, output, *more, label="cancer"):
    return ("fit", data, "--model", "mil-gp-probit", "--bag", "slide", "--label", label, "-o", output, *QUICK, *more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--set", "biass=1"), "no setting 'biass'"),
        (("--set", "kernel=sigmoid"), "kernel='sigmoid'"),
        (("--set", "random_state=x", "--ignore", "bad,other"), "random_state='x': expected"),
        (("--model", "svm"), "there is no such model; there are bag-gp, "),
        (("--label", "grade"), "no column 'grade'"),
        (("--bag", "patient"), "no column 'patient'"),
        (("--features", "u,z"), "no column 'z'"),
        (("--ignore", "bed"), "no column 'bed'"),
        (("--features", "u,cancer"), "'cancer' is named both as a feature and as something else"),
        (("--label", "bad", "--features", "u"), "varies inside the bag"),
        (("--features", "u,cancer", "--label", "other"), "column 'cancer' is not numeric"),
    ],
)
def test_a_fit_that_cannot_be_made(folder, tmp_path, more, message):
    assert message in refused(*fit_arguments(folder / "cells.csv", tmp_path / "model", *more))
    assert list(tmp_path.iterdir()) == []


def test_bad_tables_are_named(folder, cells, tmp_path):
    model = tmp_path / "model"
    assert "absent.csv: No such file" in refused(*fit_arguments(tmp_path / "absent.csv", model))
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    assert "must end in .csv" in refused(*fit_arguments(tmp_path / "x.xlsx", model))
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    assert "cannot be read as a .parquet table" in refused(*fit_arguments(tmp_path / "x.parquet", model))
    holes = cells.assign(u=cells["u"].where(cells.index != 5))
    write_table(holes, tmp_path / "holes.csv")
    message = refused(*fit_arguments(tmp_path / "holes.csv", model, "--ignore", "bad,other"))
    assert f"bag '{cells['slide'][5]}', column 'u', row 5" in message
    write_table(cells.assign(cancer=[str(number % 3) for number in cells["slide"].astype(int)]), tmp_path / "three.csv")
    assert "3 classes" in refused(*fit_arguments(tmp_path / "three.csv", model, "--ignore", "bad,other"))
    assert not model.exists()


def test_a_table_needs_its_bag_column_named_and_a_fit_its_labels(folder, tmp_path):
    data, model = folder / "cells.csv", tmp_path / "model"
    assert "--bag" in refused("fit", data, "--model", "mil-gp-probit", "--label", "cancer", "-o", model)
    assert "--label" in refused(
        "fit", data, "--model", "mil-gp-probit", "--bag", "slide", "--features", "u", "-o", model
    )


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


def test_prediction_needs_the_columns_of_the_fit(folder, cells, tmp_path):
    write_table(cells.drop(columns="v"), tmp_path / "x.csv")
    assert "no column 'v'" in refused("predict", folder / "model", tmp_path / "x.csv")
    write_table(cells.drop(columns="cancer"), tmp_path / "x.csv")
    assert "no column 'cancer'" in refused("evaluate", folder / "model", tmp_path / "x.csv")
    write_table(cells.assign(cancer="maybe"), tmp_path / "x.csv")
    assert "label 'maybe': expected 'no' or 'yes'" in refused("evaluate", folder / "model", tmp_path / "x.csv")


def test_the_shape_of_images_is_read_or_refused(folder, tmp_path):
    arguments = ("report", folder / "model", folder / "cells.csv", "-o", tmp_path / "r.html", "--image-shape")
    assert "expected HEIGHT,WIDTH" in refused(*arguments, "eight")
    assert "with 3 values in all" in refused(*arguments, "8,8")
    assert list(tmp_path.iterdir()) == []


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
