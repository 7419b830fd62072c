"""``bagwise fit``: files in, a model out, one readable message when something is wrong."""

import numpy as np
import pytest
from tests.cli.command import refused
from tests.cli.tables import bags_of, fit_arguments

from bagwise import BagGP
from bagwise.io import read_table, write_table
from bagwise.models import load_with_notes


def test_the_model_file_remembers_its_columns(folder):
    model, columns = load_with_notes(folder / "model")
    assert columns == {"bag": "slide", "known": None, "label": ["cancer"], "arrays": []}
    assert list(model.feature_names_in_) == ["u", "v", "w"]
    assert model.get_params()["n_inducing"] == 10


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
