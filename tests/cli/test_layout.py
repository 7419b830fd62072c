"""Parts, groups and metadata on the command line."""

import numpy as np
import pytest
from tests.cli.command import done, refused

from bagwise import load
from bagwise.io import read_table
from bagwise.io.npz import Described, read_archive


def test_labels_of_slides_and_of_patients_are_learned_from_together(slides, tmp_path):
    table = read_table(slides / "slides.csv", "slide_id").assign(slide_tumour=np.nan)
    table.loc[4, "slide_tumour"] = 0  # a healthy slide of a healthy patient, and one slide of a sick one
    table.loc[2, "slide_tumour"] = 1
    table.to_csv(tmp_path / "slides.csv", index=False)
    columns = ("--table", tmp_path / "slides.csv", "--bag", "patient", "--part", "slide_id", "--label", "tumour")
    settings = ("--model", "mil-gp-probit", "--set", "random_state=0", "--set", "n_inducing=20")
    fit = ("fit", slides / "features", *columns, *settings, "-o", tmp_path / "model")
    assert "MILGPProbit: 8 bags, 144 instances" in done(*fit, "--part-label", "slide_tumour").output
    assert load(tmp_path / "model").n_features_in_ == 3
    table.loc[4, "slide_tumour"] = 1
    table.to_csv(tmp_path / "slides.csv", index=False)
    assert "part '0004' is labelled 1, but its bag 'P2' is labelled 0" in refused(*fit, "--part-label", "slide_tumour")
    without = ("--table", tmp_path / "slides.csv", "--bag", "slide_id", "--label", "tumour")
    message = refused("fit", slides / "features", *without, "--part-label", "slide_tumour", "-o", tmp_path / "other")
    assert "name the column of the parts themselves with --part" in message


@pytest.fixture
def archive(tmp_path):
    """Bags of two parts each in an archive, with groups and metadata beside."""
    rng = np.random.default_rng(1)
    bag, slide = np.repeat(np.arange(8), 6), np.repeat([f"s{number}" for number in range(16)], 3)
    X = rng.normal(size=(48, 2))
    X[(bag % 2 == 1) & (np.arange(48) % 6 == 0), 0] += 4.0
    order = rng.permutation(48)
    beside = {"slide": slide[order], "x": np.arange(48)[order], "clinic": np.array(list("aabbccdd"))}
    beside["ward"] = beside["clinic"][bag[order]]  # by row instead of by bag
    np.savez(tmp_path / "bags.npz", X=X[order], bag=bag[order], y=np.arange(8) % 2, **beside)
    return tmp_path / "bags.npz"


def test_parts_groups_and_metadata_of_an_archive_are_arrays(archive, tmp_path):
    options = ("--part", "slide", "--group", "clinic", "--meta", "x")
    done("fit", archive, *options, "--model", "mil-gp-probit", "--set", "n_inducing=8", "-o", tmp_path / "model")
    done(
        "predict", tmp_path / "model", archive, "--parts", tmp_path / "parts.csv", "--instances", tmp_path / "rows.csv"
    )
    parts, rows = (read_table(tmp_path / name, "bag") for name in ("parts.csv", "rows.csv"))
    assert sorted(parts["part"]) == sorted(f"s{number}" for number in range(16))
    assert (parts["size"] == 3).all()
    assert (rows["x"] // 3 == rows["part"].str[1:].astype(int)).all()
    done("evaluate", tmp_path / "model", archive, "--folds", 4)
    given = [read_archive(archive, described=Described(group=group)).bags.group for group in ("clinic", "ward")]
    assert given[0] == given[1]
    message = refused("fit", archive, "--part", "section", "-o", tmp_path / "other")
    assert "has no array 'section'" in message
    wrong = refused("fit", archive, "--group", "x", "-o", tmp_path / "other")
    assert "varies" in wrong
