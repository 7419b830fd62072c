"""Candidate sets on the command line: from 0/1 columns, or an archive, to classes of bags and instances."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused

from bagwise import MIPLGP, Bags
from bagwise.datasets import read_npz
from bagwise.io import read_table, write_table
from bagwise.models import load

CLASSES = ["cat", "dog", "owl"]
NONE = "none of them"
QUICK = ("--set", "n_rounds=4", "--set", "learn=false", "--set", "random_state=0", "--set", "verbose=0")
OPTIONS = ("--model", "miplgp", "--bag", "photo", "--features", "u,v", *QUICK)
CENTRES = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0], [0.0, -4.0]])  # the last of what is none of them


def measures(folder, *arguments):
    done("evaluate", *arguments, "--json", folder / "measures.json")
    return json.loads((folder / "measures.json").read_text())


@pytest.fixture(scope="module")
def parts():
    """Photographs of three parts, one of which shows the animal; two candidates each. The rows are shuffled."""
    random = np.random.RandomState(0)
    photo = np.repeat(np.arange(18), 3)
    true = photo % 3
    false = (true + 1 + (photo // 3) % 2) % 3
    inside = np.where(np.tile(np.arange(3), 18) == (photo // 3) % 3, true, 3)
    frame = pd.DataFrame(CENTRES[inside] + 0.4 * random.standard_normal((54, 2)), columns=["u", "v"])
    frame["photo"] = [f"{number:03d}" for number in photo]
    for number, name in enumerate(CLASSES):
        frame[name] = ((true == number) | (false == number)).astype(int)
    frame["truth"] = np.array(CLASSES)[true]
    frame["what"] = np.array([*CLASSES, NONE])[inside]
    return frame.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("parts")
    write_table(parts, folder / "parts.csv")
    result = done("fit", folder / "parts.csv", "--candidates", "cat,dog,owl", *OPTIONS, "-o", folder / "model")
    assert "MIPLGP: 18 bags, 54 instances, 2 features; 4 iterations of exact" in result.stdout
    return folder


@pytest.fixture(scope="module")
def archive(folder):
    """The same as an archive: classes and instances by numbers, bags in the order of the table."""
    frame = read_table(folder / "parts.csv", "photo")
    bags, y = Bags.from_frame(frame, "photo", features=["u", "v"], label=[*CLASSES, "truth"])
    number = {name: place for place, name in enumerate([*CLASSES, NONE])}
    path = folder / "parts.npz"
    np.savez(
        path,
        X=bags.X,
        columns=["u", "v"],
        bag=bags.index,
        y=np.array([number[name] for name in y[:, 3]]),
        candidates=y[:, :3].astype(np.uint8),
        ones=np.ones(len(bags), dtype=int),
        instance_y=frame["what"].map(number).to_numpy()[bags.rows],
    )
    done("fit", path, "--model", "miplgp", *QUICK, "-o", folder / "from_archive")
    return path


def changed(parts, tmp_path, **columns):
    write_table(parts.assign(**columns), tmp_path / "changed.csv")
    return tmp_path / "changed.csv"


# ---------------------------------------------------------------- fit and predict


def test_models_lists_miplgp_with_candidates():
    assert any("miplgp" in line and "candidates" in line for line in done("models").stdout.splitlines())


def test_the_columns_are_the_classes_and_the_model_is_that_of_python(folder, parts):
    bags, y = Bags.from_frame(parts, "photo", features=["u", "v"], label=CLASSES)
    same = MIPLGP(n_rounds=4, learn=False, random_state=0).fit(bags, y)
    fitted = load(folder / "model")
    assert fitted.classes_.tolist() == CLASSES
    np.testing.assert_allclose(fitted.predict_proba(bags), same.predict_proba(bags), atol=1e-10)


def test_predict_names_a_column_for_every_class_and_none_of_them_last(folder, parts):
    done("predict", folder / "model", folder / "parts.csv", "--bags", folder / "b.csv", "--instances", folder / "i.csv")
    of_bags, of_parts = read_table(folder / "b.csv", "bag"), read_table(folder / "i.csv", "bag")
    shares = [f"probability_{name}" for name in CLASSES]
    assert [*of_bags] == ["bag", "size", "prediction", *shares]
    latent = [f"{part}_{name}" for name in [*CLASSES, NONE] for part in ("mean", "sd")]
    assert [*of_parts] == ["bag", "row", "prediction", *shares, f"probability_{NONE}", *latent]
    np.testing.assert_allclose(of_bags[shares].sum(axis=1), 1.0)
    np.testing.assert_allclose(of_parts[[*shares, f"probability_{NONE}"]].sum(axis=1), 1.0)
    assert of_parts["bag"].tolist() == parts["photo"].tolist()
    assert np.mean(of_parts["prediction"] == parts["what"]) > 0.9
    truth = parts.groupby("photo")["truth"].first()
    assert of_bags["prediction"].tolist() == truth[of_bags["bag"]].tolist()


def test_predict_prints_the_bags(folder):
    assert "prediction" in done("predict", folder / "model", folder / "parts.csv").stdout


def test_an_archive_needs_no_column_names(folder, archive):
    fitted, named = load(folder / "from_archive"), load(folder / "model")
    assert fitted.classes_.tolist() == [0, 1, 2]
    bags = read_npz(archive)[0]
    np.testing.assert_allclose(fitted.predict_proba(bags), named.predict_proba(bags), atol=1e-6)
    done("predict", folder / "from_archive", archive, "--instances", folder / "numbers.csv")
    assert "probability_3" in read_table(folder / "numbers.csv").columns
    assert "probability_4" not in read_table(folder / "numbers.csv").columns


def test_candidates_may_be_missing_for_some_bags(folder, parts, tmp_path):
    silent = parts["photo"] == "004"
    path = changed(parts, tmp_path, **{name: parts[name].where(~silent) for name in CLASSES})
    done("fit", path, "--candidates", "cat,dog,owl", *OPTIONS, "-o", tmp_path / "model")
    found = measures(tmp_path, tmp_path / "model", path)["bag classes"]
    assert (found["n"], found["missing"]) == (17, 1)


def test_one_known_class_per_bag_is_a_label(folder):
    done("fit", folder / "parts.csv", "--label", "truth", *OPTIONS, "-o", folder / "labels")
    assert load(folder / "labels").classes_.tolist() == CLASSES
    assert measures(folder, folder / "labels", folder / "parts.csv")["bag classes"]["accuracy"] == 1.0


# ---------------------------------------------------------------- evaluate and report


def test_evaluate_counts_a_candidate_as_right(folder, parts, tmp_path):
    found = measures(folder, folder / "model", folder / "parts.csv", "--instance-label", "what")
    assert (found["bag classes"]["n"], found["bag classes"]["accuracy"]) == (18, 1.0)
    bags, _, what = Bags.from_frame(parts, "photo", features=["u", "v"], label="truth", instance_label="what")
    right = np.mean(load(folder / "model").predict_instances(bags) == what)
    assert found["instance classes"]["n"] == 54
    assert found["instance classes"]["accuracy"] == pytest.approx(right)
    assert right > 0.9
    assert "bags" not in found  # by class nothing but exclusions is known
    hopeless = changed(parts, tmp_path, **{name: 1 - (parts["truth"] == name).astype(int) for name in CLASSES})
    assert measures(folder, folder / "model", hopeless)["bag classes"]["accuracy"] == 0.0


def test_evaluate_takes_true_classes(folder, parts, tmp_path):
    found = measures(folder, folder / "model", folder / "parts.csv", "--label", "truth")
    assert found["bag classes"]["accuracy"] == 1.0
    assert found["bags"]["owl"]["auc"] == 1.0
    always = changed(parts, tmp_path, truth="owl")
    assert measures(folder, folder / "model", always, "--label", "truth")["bag classes"]["accuracy"] == pytest.approx(
        1 / 3
    )


def test_candidates_are_found_by_name_in_any_order(folder):
    asked = (folder / "model", folder / "parts.csv")
    assert measures(folder, *asked, "--candidates", "owl,cat,dog") == measures(folder, *asked)


def test_instance_labels_alone_suffice(folder, parts):
    write_table(parts.drop(columns=CLASSES), folder / "without.csv")
    found = measures(folder, folder / "model", folder / "without.csv", "--instance-label", "what")
    assert [*found] == ["model", "instance classes", "instances"]


def test_classes_named_by_numbers_are_read_as_names(folder, parts, tmp_path):
    digit = {"cat": "2", "dog": "0", "owl": "1"}  # places 0, 1, 2: not what they are called
    frame = parts.rename(columns=digit).assign(truth=parts["truth"].map(digit).astype(int))
    write_table(frame, tmp_path / "digits.csv")
    done("fit", tmp_path / "digits.csv", "--candidates", "2,0,1", *OPTIONS, "-o", tmp_path / "model")
    found = measures(tmp_path, tmp_path / "model", tmp_path / "digits.csv", "--label", "truth")
    assert found["bag classes"]["accuracy"] == 1.0


@pytest.mark.parametrize("truth", [(), ("--label", "y"), ("--candidates", "candidates")])
def test_models_of_tables_and_of_archives_judge_archives(folder, archive, truth):
    for model in ("model", "from_archive"):
        found = measures(folder, folder / model, archive, *truth)
        assert found["bag classes"]["accuracy"] == 1.0
        assert found["instance classes"]["accuracy"] > 0.9


def test_report_of_candidates_names_the_classes(folder):
    page = folder / "report.html"
    done("report", folder / "model", folder / "parts.csv", "--instance-label", "what", "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "accuracy of bag classes" in text
    assert "cat, dog, owl" in text


# ---------------------------------------------------------------- refusals


def test_a_candidate_must_be_constant_inside_its_bag(parts, tmp_path):
    row = int(parts.index[parts["photo"] == "008"][1])
    path = changed(parts, tmp_path, dog=parts["dog"].where(parts.index != row, 1 - parts["dog"]))
    message = refused("fit", path, "--candidates", "cat,dog,owl", *OPTIONS, "-o", tmp_path / "model")
    assert "'dog'" in message
    assert "'008'" in message


@pytest.mark.parametrize(("value", "shown"), [(2, "holds 2"), ("yes", "holds 'yes'"), (None, "holds nan")])
def test_a_candidate_is_0_or_1(parts, tmp_path, value, shown):
    column = parts["dog"].astype(object).where(parts["photo"] != "008", value)
    path = changed(parts, tmp_path, dog=column)
    message = refused("fit", path, "--candidates", "cat,dog,owl", *OPTIONS, "-o", tmp_path / "model")
    assert "0 and 1 only" in message
    assert "bag '008', column 'dog'" in message
    assert shown in message
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("--candidates", "cat"), "at least two"),
        (("--candidates", "cat,dog,cat"), "named twice"),
        (("--candidates", "cat,bat"), "no column 'bat'"),
        (("--candidates", "cat,dog,owl", "--label", "truth"), "not from several"),
        (("--label", "cat,dog"), "use --candidates cat,dog"),
        (("--fraction", "cat"), "miplgp takes candidates, label"),
        ((), "--candidates"),
    ],
)
def test_fit_refuses_candidates_that_it_cannot_use(folder, tmp_path, said, words):
    assert words in refused("fit", folder / "parts.csv", *said, *OPTIONS, "-o", tmp_path / "model")


def test_other_models_name_the_one_for_candidates(folder, tmp_path):
    asked = ("--candidates", "cat,dog,owl", "--bag", "photo", "--features", "u,v")
    said = refused("fit", folder / "parts.csv", "--model", "gpmil", *asked, "-o", tmp_path / "model")
    assert "is for bag-gp, miplgp" in said


def test_an_array_of_candidates_has_a_column_per_class(archive, tmp_path):
    asked = ("--model", "miplgp", "--candidates", "ones", *QUICK)
    assert "shape (B, classes)" in refused("fit", archive, *asked, "-o", tmp_path / "model")


@pytest.mark.parametrize("command", ["evaluate", "report"])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("--fraction", "cat"), "--label COL"),
        (("--count", "cat,dog"), "--candidates COL,COL"),
        (("--label", "cat,dog"), "--label COL"),
        (("--candidates", "cat,dog"), "'cat', 'dog', 'owl'"),
        (("--instance-label", "what,truth"), "the one column with the class"),
    ],
)
def test_what_cannot_be_compared_is_refused(folder, tmp_path, command, said, words):
    out = ("-o", tmp_path / "page.html") if command == "report" else ()
    assert words in refused(command, folder / "model", folder / "parts.csv", *said, *out)


def test_an_unknown_class_is_refused(folder, parts, tmp_path):
    path = changed(parts, tmp_path, truth=parts["truth"].replace("owl", "bat"))
    message = refused("evaluate", folder / "model", path, "--label", "truth")
    assert "class 'bat': expected one of 'cat', 'dog', 'owl'" in message


def test_candidates_are_no_truth_for_a_model_of_two_classes(folder, parts, tmp_path):
    path = changed(parts, tmp_path, animal=(parts["truth"] == "cat").astype(int))
    done(
        "fit", path, "--model", "mil-gp-probit", "--bag", "photo", "--label", "animal", "--features", "u,v",
        "--set", "n_inducing=5", "--set", "max_iter=2", "--set", "verbose=0", "-o", tmp_path / "two",
    )  # fmt: skip
    assert "compare it with --label" in refused("evaluate", tmp_path / "two", path, "--candidates", "cat,dog,owl")


def test_suggest_says_what_to_do_instead(folder):
    assert "`bagwise predict`" in refused("suggest", folder / "model", folder / "parts.csv")


def test_an_archive_may_name_its_classes(folder, archive, tmp_path):
    arrays = dict(np.load(archive))
    turned = {"candidates": arrays["candidates"][:, ::-1], "class_names": CLASSES[::-1]}
    arrays.pop("instance_y")  # its numbers are those of the other order
    np.savez(tmp_path / "named.npz", **(arrays | turned))
    done("fit", tmp_path / "named.npz", "--model", "miplgp", *QUICK, "-o", tmp_path / "model")
    assert load(tmp_path / "model").classes_.tolist() == CLASSES[::-1]
    for model in (tmp_path / "model", folder / "model"):
        for data in (tmp_path / "named.npz", folder / "parts.csv"):
            assert measures(tmp_path, model, data, *only_bags(data))["bag classes"]["accuracy"] == 1.0


def only_bags(data):
    return ("--bag", "photo") if data.suffix == ".csv" else ()


def test_the_flagship_learns_candidates_on_the_command_line(folder, tmp_path):
    """From 0/1 columns to classes of bags and instances, a measure, a suggestion and a report."""
    data, model = folder / "parts.csv", tmp_path / "model"
    quick = ("--set", "learn=false", "--set", "random_state=0", "--set", "verbose=0", "--features", "u,v")
    done("fit", data, "--bag", "photo", "--candidates", "cat,dog,owl", *quick, "-o", model)
    assert load(model).classes_.tolist() == CLASSES
    done("predict", model, data, "--bags", tmp_path / "bags.csv", "--instances", tmp_path / "rows.csv")
    answers = pd.read_csv(tmp_path / "bags.csv")
    assert len(answers) == 18
    assert measures(tmp_path, model, data, "--label", "truth", "--instance-label", "what")["bags"]
    assert "bag" in done("suggest", model, data, "-n", "2").stdout
    done("report", model, data, "-o", tmp_path / "report.html")
    assert "owl" in (tmp_path / "report.html").read_text()
    done("fit", data, "--bag", "photo", "--label", "truth", "--set", "evidence=class", *quick, "-o", tmp_path / "named")
    assert load(tmp_path / "named").classes_.tolist() == CLASSES
