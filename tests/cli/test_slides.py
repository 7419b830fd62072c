"""Slides on the command line: folders, patients, answers given a label, heatmaps."""

import json
import shlex

import h5py
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused, run

from bagwise import Bags, load
from bagwise.io import read_table
from bagwise.io.heatmap import write_geojson, write_scores
from bagwise.io.npz import Described, read_archive
from bagwise.labelling import server
from bagwise.labelling.journal import Journal
from bagwise.labelling.question import TWO, Question

GRID = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2) * 256


@pytest.fixture(scope="module")
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


def test_a_folder_is_fitted_and_predicted_with_positions_instead_of_rows(slides, tmp_path):
    data = (slides / "model", slides / "features")
    done("predict", *data, "--instances", tmp_path / "tiles.csv", "--bags", tmp_path / "slides.csv")
    tiles = read_table(tmp_path / "tiles.csv", "bag")
    assert list(tiles.columns) == ["bag", "x", "y", "row", "probability", "mean", "sd"]
    assert list(tiles["x"][:12]) == GRID[:, 0].tolist()
    assert list(read_table(tmp_path / "slides.csv", "bag")["bag"]) == [f"{number:04d}" for number in range(12)]


def test_a_folder_without_its_table_cannot_be_fitted(slides, tmp_path):
    message = refused("fit", slides / "features", "--bag", "slide_id", "--label", "tumour", "-o", tmp_path / "model")
    assert "a folder needs a table" in message


def test_bad_files_are_refused_or_left_out_with_a_list_at_the_end(slides, tmp_path):
    (tmp_path / "features").mkdir()
    for path in (slides / "features").iterdir():
        (tmp_path / "features" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "features" / "0003.h5").write_bytes(b"no h5")
    command = ("predict", slides / "model", tmp_path / "features")
    assert "'0003.h5' (cannot be read as an h5 file" in refused(*command)
    result = done(*command, "--skip-bad", "--bags", tmp_path / "slides.csv")
    assert result.stderr.strip().splitlines()[-1].startswith("bagwise: left out 0003.h5: cannot be read as an h5 file")
    assert len(read_table(tmp_path / "slides.csv", "bag")) == 11


def test_patients_slides_and_tiles_are_predicted_together(slides, tmp_path):
    columns = ("--table", slides / "slides.csv", "--bag", "patient", "--part", "slide_id", "--label", "tumour")
    settings = ("--model", "mil-gp-probit", "--set", "random_state=0", "--set", "n_inducing=20")
    done("fit", slides / "features", *columns, *settings, "-o", tmp_path / "model")
    outputs = [f for what in ("bags", "parts", "instances") for f in (f"--{what}", tmp_path / f"{what}.csv")]
    done("predict", tmp_path / "model", slides / "features", "--table", slides / "slides.csv", *outputs)
    patients, parts, tiles = (read_table(tmp_path / f"{what}.csv", "bag") for what in ("bags", "parts", "instances"))
    assert (len(patients), len(parts), len(tiles)) == (6, 12, 144)
    above = parts.merge(patients, on="bag", suffixes=("", "_of_bag"))
    assert (above["probability"] <= above["probability_of_bag"]).all()
    assert (tiles.groupby("part")["probability"].max() <= parts.set_index("part")["probability"] + 1e-12).all()


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


def test_given_label_conditions_every_instance_on_its_own_bag(slides, tmp_path):
    command = ("predict", slides / "model", slides / "features", "--table", slides / "slides.csv")
    done(*command, "--given-label", "tumour", "--instances", tmp_path / "given.csv")
    given = read_table(tmp_path / "given.csv", "bag")
    bags, y = Bags.from_folder(slides / "features", slides / "slides.csv", label="tumour")
    expected = load(slides / "model").predict_instance_proba(bags, given=y)[:, 1]
    np.testing.assert_allclose(given["probability"], expected, atol=1e-12)
    assert (given["probability"][:24] == 0).all()


def test_a_folder_that_stays_in_its_files_is_answered_for_alike(slides, tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.io.streamed._ROWS", 30)
    command = ("predict", slides / "model", slides / "features", "--table", slides / "slides.csv")
    for memory in ("1GB", "1KB"):
        outputs = [f for what in ("bags", "instances") for f in (f"--{what}", tmp_path / f"{memory}-{what}.csv")]
        done(*command, "--given-label", "tumour", "--memory", memory, *outputs)
    for what in ("bags", "instances"):
        whole, stored = (read_table(tmp_path / f"{memory}-{what}.csv", "bag") for memory in ("1GB", "1KB"))
        pd.testing.assert_frame_equal(whole, stored, atol=1e-12)


# How the folds fall among so few patients is scikit-learn's affair, and differs between its versions.
@pytest.mark.filterwarnings("ignore:one of the classes has a single bag:bagwise.BagDataWarning")
def test_baselines_that_know_of_no_given_label_and_no_parts_say_so(slides, tmp_path):
    columns = ("--table", slides / "slides.csv", "--bag", "patient", "--part", "slide_id", "--label", "tumour")
    done("fit", slides / "features", *columns, "--model", "mi-svm", "-o", tmp_path / "model")
    command = (tmp_path / "model", slides / "features", "--table", slides / "slides.csv")
    done("evaluate", *command, "--folds", 3)
    assert "MiSVM has no answers about parts" in refused("predict", *command, "--parts", tmp_path / "parts.csv")
    for asked in (("predict", *command, "--given-label", "tumour"), ("report", *command, "--given-label", "-o", "x")):
        assert "MiSVM cannot judge instances by the label of their bag" in refused(*asked)
    slide = slides / "features" / "0002.h5"
    assert "MiSVM does not say how sure it is" in refused("heatmap", tmp_path / "model", slide, "-o", tmp_path / "maps")


def test_folds_respect_the_patients_that_the_fit_was_told_of(slides, tmp_path):
    command = ("evaluate", slides / "model", slides / "features", "--table", slides / "slides.csv", "--folds", 3)
    done(*command, "--json", tmp_path / "folds.json")
    assert json.loads((tmp_path / "folds.json").read_text())["bags"]["n"] == 12
    assert "there are only 6 groups" in refused(*command[:-1], 7)


def test_reports_show_places_and_answers_given_the_label(slides, tmp_path):
    command = ("report", slides / "model", slides / "features", "--table", slides / "slides.csv")
    done(*command, "--given-label", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "x 256, y 512" in page
    assert "given the label of their bag" in page
    assert ">row " not in page


def test_suggestions_name_the_place_of_an_instance(slides, tmp_path):
    command = ("suggest", slides / "model", slides / "features", "--what", "instances", "-n", 2)
    done(*command, "-o", tmp_path / "next.csv")
    assert list(read_table(tmp_path / "next.csv").columns) == ["bag", "row", "utility", "x", "y"]


@pytest.fixture(scope="module")
def maps(slides, tmp_path_factory):
    there = tmp_path_factory.mktemp("maps")
    done("heatmap", slides / "model", slides / "features" / "0002.h5", "-o", there, "--given-label", 1, "--level", 0.4)
    return there


def test_heatmap_writes_a_picture_and_scores_beside_coords(maps):
    assert sorted(path.name for path in maps.iterdir()) == ["0002.geojson", "0002.png", "0002.scores.h5"]
    assert matplotlib.image.imread(maps / "0002.png").std() > 0.05
    with h5py.File(maps / "0002.scores.h5") as file:
        np.testing.assert_array_equal(file["coords"][()], GRID)
        assert file["probability"][:4].min() > file["probability"][4:].max()
        assert (file["spread"][()] > 0).all()


def check_position(position):
    assert len(position) == 2
    assert all(isinstance(number, int | float) for number in position)


def test_geojson_is_a_collection_of_closed_counterclockwise_squares_with_finite_scores(maps):
    """The rules of RFC 7946 for polygons, and the names that QuPath reads."""
    found = json.loads((maps / "0002.geojson").read_text(), parse_constant=pytest.fail)
    assert set(found) == {"type", "features"}
    assert found["type"] == "FeatureCollection"
    assert len(found["features"]) == 12
    for feature, place in zip(found["features"], GRID, strict=True):
        assert set(feature) == {"type", "geometry", "properties"}
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] == "Polygon"
        (ring,) = feature["geometry"]["coordinates"]
        for position in ring:
            check_position(position)
        assert ring[0] == ring[-1] == place.tolist()
        (x, y) = np.array(ring).T
        assert np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2 == 256**2  # above 0: counterclockwise
        properties = feature["properties"]
        assert properties["objectType"] == "detection"
        assert all(0 <= shade <= 255 for shade in properties["classification"]["color"])
        positive = properties["measurements"]["probability"] > 0.4
        assert properties["classification"]["name"] == ("positive" if positive else "negative")


def test_maps_of_twenty_thousand_tiles_are_a_few_megabytes(tmp_path):
    places = np.stack(np.meshgrid(np.arange(200), np.arange(100)), axis=-1).reshape(-1, 2) * 256.0
    score = np.random.default_rng(0).random(20_000)
    write_geojson(tmp_path / "map.geojson", places, 256.0, {"probability": score, "spread": score / 3})
    write_scores(tmp_path / "map.h5", places, {"probability": score, "spread": score / 3}, {})
    assert (tmp_path / "map.geojson").stat().st_size < 6e6
    assert (tmp_path / "map.h5").stat().st_size < 5e5
    with h5py.File(tmp_path / "map.h5") as file:
        np.testing.assert_array_equal(file["probability"][()], score)


def test_heatmap_refuses_what_it_cannot_draw(slides, tmp_path):
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        file["features"] = np.zeros((2, 3), dtype=np.float32)
    assert "has no coords" in refused("heatmap", slides / "model", tmp_path / "bare.h5", "-o", tmp_path / "out")
    slide = slides / "features" / "0000.h5"
    assert "folder of the slides" in refused("heatmap", slides / "model", slide, "-o", slides / "features")
    assert "are 0 and 1" in refused("heatmap", slides / "model", slide, "-o", tmp_path / "o", "--given-label", "yes")
    assert run("heatmap", slides / "model", slides / "nowhere.h5", "-o", tmp_path / "o").exit_code == 2


def test_compare_reads_a_folder_and_the_printed_command_fits_it(slides, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = ("--table", slides / "slides.csv", "--bag", "slide_id", "--label", "tumour", "--group", "patient")
    quick = ("--models", "mil-gp-probit", "--set", "mil-gp-probit.n_inducing=8", "--folds", 3, "--jobs", 1)
    result = done("compare", slides / "features", *columns, *quick)
    folds = [json.loads(line) for line in (tmp_path / "compare" / "compare.jsonl").read_text().splitlines()]
    assert [record["sizes"]["test"] % 2 for record in folds if "sizes" in record] == [0, 0, 0]  # whole patients
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("  bagwise fit")]
    done(*shlex.split(line)[1:])


def test_labels_of_slides_are_exported_into_their_table(slides, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = read_table(slides / "slides.csv", "slide_id")
    table["tumour"] = table["tumour"].where(np.arange(12) < 8)
    table.to_csv("some.csv", index=False)
    Journal(tmp_path / "a.jsonl", "bags", Question(TWO, ("negative (0)", "positive (1)"))).answer(
        "ann", ("0009", None), [1], None, False
    )
    options = ("--model", slides / "model", "--table", "some.csv", "--answers", "a.jsonl", "--export", "out.csv")
    result = done("label", slides / "features", *options)
    found = read_table("out.csv", "slide_id").set_index("slide_id")["tumour"]
    assert found["0009"] == 1
    assert found[[f"{number:04d}" for number in range(8)]].tolist() == table["tumour"][:8].tolist()
    assert found[["0008", "0010", "0011"]].isna().all()
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("  bagwise fit")]
    assert "12 bags" in done(*shlex.split(line)[1:], "--set", "n_inducing=8").stdout


def test_tiles_to_label_are_shown_with_their_positions(slides, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda url: None)
    monkeypatch.setattr(server, "Desk", lambda session, exhibit, title, export: shown.append((exhibit, export)))
    monkeypatch.setattr(server, "serve", lambda make, host, port, ready: None)
    columns = ("--table", slides / "slides.csv", "--bag", "slide_id", "--label", "tumour")
    quick = ("--model", "vgpmil", "--set", "max_iter=3", "--set", "n_inducing=8")
    done("fit", slides / "features", *columns, *quick, "-o", tmp_path / "model")
    options = ("--model", tmp_path / "model", *columns[:2], "--what", "instances", "--answers", tmp_path / "a.jsonl")
    done("label", slides / "features", *options)
    exhibit, export = shown[0]
    assert exhibit.columns == ("x", "y")
    assert exhibit.item(13)["rows"][0]["cells"] == ["256", "0"]
    assert export().decode().splitlines()[0] == "slide_id,x,y,known"


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
