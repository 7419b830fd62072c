"""``bagwise report``: a page, with and without labels."""

import json
import re

from tests.cli.command import done, refused

from bagwise.io import read_table, write_table


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


def test_reports_of_fractions_and_counts(counted, tmp_path):
    for name, words in {"fraction": "Measures of fractions", "count": "Measures of counts"}.items():
        done("report", counted / name, counted / "x.csv", "-o", tmp_path / "r.html")
        assert words in (tmp_path / "r.html").read_text()
    write_table(read_table(counted / "x.csv", "slide")[["slide", "u", "v", "w"]], tmp_path / "new.csv")
    done("report", counted / "fraction", tmp_path / "new.csv", "-o", tmp_path / "r.html")
    assert "No labels were given" in (tmp_path / "r.html").read_text()
    assert "no column 'share'" in refused("evaluate", counted / "fraction", tmp_path / "new.csv")


def test_the_shape_of_images_is_read_or_refused(folder, tmp_path):
    arguments = ("report", folder / "model", folder / "cells.csv", "-o", tmp_path / "r.html", "--image-shape")
    assert "expected HEIGHT,WIDTH" in refused(*arguments, "eight")
    assert "with 3 values in all" in refused(*arguments, "8,8")
    assert list(tmp_path.iterdir()) == []
