"""``bagwise suggest``: what to label next."""

import numpy as np
from tests.cli.command import done, refused
from tests.cli.tables import QUICK

import bagwise
from bagwise.active import suggest
from bagwise.datasets import make_bags
from bagwise.io import read_table, write_npz, write_table


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


def test_only_what_is_not_known_is_suggested(counted, tmp_path):
    done("suggest", counted / "fraction", counted / "x.csv", "-o", tmp_path / "s.csv")
    assert list(read_table(tmp_path / "s.csv", "bag")["bag"]) == ["003"]
    done("suggest", counted / "known", counted / "x.csv", "--what", "instances", "-n", 20, "-o", tmp_path / "s.csv")
    assert (read_table(tmp_path / "s.csv", "bag")["row"] % 5 > 0).all()
