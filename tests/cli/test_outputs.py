"""What the command line writes and prints: never over an input, never into a terminal's controls."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done, refused, run

import bagwise
from bagwise.datasets import make_bags
from bagwise.io import read_table, write_npz, write_table

QUICK = ("--model", "mil-gp-probit", "--set", "n_inducing=6", "--set", "max_iter=2", "--set", "random_state=0")
STANDARD_OUTPUT = "/dev/fd/1"  # not as /dev/stdout, which a mistake could replace for the whole machine
FIT = ("--bag", "slide", "--label", "y", *QUICK)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, an archive and a model of the same bags."""
    place = tmp_path_factory.mktemp("made")
    bags, y, instance_y = make_bags(12, (2, 4), 2, random_state=0)
    frame = pd.DataFrame(bags.X, columns=["u", "v"])
    write_table(frame.assign(slide=bags.index, y=y[bags.index]), place / "d.csv")
    write_npz(place / "d.npz", bags, y, instance_y)
    done("fit", place / "d.csv", *FIT, "-o", place / "m")
    return place


@pytest.fixture
def folder(made, tmp_path):
    """The same files, to do with as one likes."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def process(*arguments, **options):
    command = [sys.executable, "-m", "bagwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **options)


# ---------------------------------------------------------------- inputs survive


OVER_THE_DATA = {
    "fit": lambda d, m, out: ("fit", d, *FIT, "-o", out),
    "fit, checkpoint": lambda d, m, out: ("fit", d, *FIT, "-o", "new", "--set", f"checkpoint={out}"),
    "predict bags": lambda d, m, out: ("predict", m, d, "--bags", out),
    "predict instances": lambda d, m, out: ("predict", m, d, "--instances", out),
    "evaluate": lambda d, m, out: ("evaluate", m, d, "--json", out),
    "suggest": lambda d, m, out: ("suggest", m, d, "-o", out),
    "report": lambda d, m, out: ("report", m, d, "-o", out),
}
SPELLINGS = {
    "same": lambda path: path,
    "dotted": lambda path: path.parent / "." / ".." / path.parent.name / path.name,
    "symbolic": lambda path: _linked(path, os.symlink),
    "hard": lambda path: _linked(path, os.link),
}


def _linked(path, link):
    link(path, path.with_name(f"linked{path.suffix}"))
    return path.with_name(f"linked{path.suffix}")


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("command", OVER_THE_DATA)
def test_cli_refuses_to_overwrite_its_data(folder, command, spelling, monkeypatch):
    monkeypatch.chdir(folder)
    data, before = folder / "d.csv", (folder / "d.csv").read_bytes()
    message = refused(*OVER_THE_DATA[command](data, folder / "m", SPELLINGS[spelling](data)))
    assert f"is the file {data}, which is read here; give another name" in message
    assert data.read_bytes() == before
    assert not (folder / "new").exists()


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_cli_refuses_to_overwrite_its_model(folder, command):
    before = (folder / "m").read_bytes()
    assert "which is read here" in refused(*OVER_THE_DATA[command](folder / "d.csv", folder / "m", folder / "m"))
    assert (folder / "m").read_bytes() == before


def test_two_outputs_in_one_file_are_refused_before_anything_is_written(folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = ("predict", "m", "d.csv", "--bags", "s.csv", "--instances")
    assert f"--instances {folder}/s.csv and --bags s.csv are the same file" in refused(*arguments, folder / "s.csv")
    message = refused("fit", "d.csv", *FIT, "-o", "new", "--set", "checkpoint=new")
    assert "--output new and --set checkpoint new are the same file" in message
    assert sorted(path.name for path in folder.iterdir()) == ["d.csv", "d.npz", "m"]
    os.mkfifo("pipe")
    reader = threading.Thread(target=lambda: [(folder / "pipe").read_bytes() for _ in range(2)], daemon=True)
    reader.start()
    done(*arguments[:3], "--bags", "pipe", "--instances", "pipe")


# ---------------------------------------------------------------- streams


def poured(capfdbinary, *arguments):
    """What a command writes to the descriptor of standard output, here a file; it must print nothing else there."""
    assert done(*arguments).stdout == ""
    return capfdbinary.readouterr().out


def test_tables_go_to_standard_output_alone(folder, capfdbinary):
    arguments = ("predict", folder / "m", folder / "d.csv", "--bags", STANDARD_OUTPUT)
    result = process(*arguments)  # where it is a pipe
    assert (result.returncode, result.stderr) == (0, f"bags: {STANDARD_OUTPUT}\n".encode())
    assert list(pd.read_csv(io.BytesIO(result.stdout)).columns) == ["bag", "size", "probability", "prediction"]
    assert poured(capfdbinary, *arguments) == result.stdout


def test_measures_and_models_go_to_standard_output_alone(folder, capfdbinary):
    measures = poured(capfdbinary, "evaluate", folder / "m", folder / "d.csv", "--json", STANDARD_OUTPUT)
    assert json.loads(measures)["model"] == "mil-gp-probit"
    (folder / "again").write_bytes(poured(capfdbinary, "fit", folder / "d.csv", *FIT, "-o", STANDARD_OUTPUT))
    assert type(bagwise.load(folder / "again")) is bagwise.MILGPProbit


# ---------------------------------------------------------------- spreadsheets

HOSTILE = ["=1+1", "+1+1", "-1+1", "@sum(1)", "\tx", "\rx", "-5", "+7.5e3", "plain", "'quoted"]
QUOTED = ["'=1+1", "'+1+1", "'-1+1", "'@sum(1)", "'\tx", "'\rx", "-5", "+7.5e3", "plain", "'quoted"]


@pytest.fixture
def hostile(folder):
    """Bags whose names a spreadsheet would compute."""
    frame = pd.DataFrame({"slide": HOSTILE, "u": 0.5, "v": -0.25})
    write_table(frame, folder / "hostile.parquet")
    return folder / "hostile.parquet"


@pytest.mark.parametrize(
    "command", [("predict", "--bags"), ("predict", "--instances"), ("suggest", "-n", 10, "-o")], ids=str
)
def test_text_that_a_spreadsheet_would_compute_is_quoted_unless_raw(folder, hostile, command):
    name, *options = command
    out = folder / "out.csv"
    done(name, folder / "m", hostile, *options, out)
    assert sorted(read_table(out, "bag")["bag"]) == sorted(QUOTED)
    done(name, folder / "m", hostile, *options, out, "--raw")
    assert sorted(read_table(out, "bag")["bag"]) == sorted(HOSTILE)
    done(name, folder / "m", hostile, *options, folder / "out.parquet")
    assert sorted(read_table(folder / "out.parquet", "bag")["bag"]) == sorted(HOSTILE)


# ---------------------------------------------------------------- terminals

CONTROLS = "\x1b[31mred\x1b[0m\x07\x9b\u202ebidi\r\n"


def test_control_characters_are_printed_escaped(folder):
    write_table(pd.DataFrame({"slide": [CONTROLS], "u": [0.5], "v": [0.5]}), folder / "x.parquet")
    for arguments in (("predict",), ("suggest",), ("suggest", "--what", "instances")):
        printed = done(arguments[0], folder / "m", folder / "x.parquet", *arguments[1:]).stdout
        assert not any(letter in printed for letter in "\x1b\x07\x9b\u202e\r")
        assert "x1b[31m" in "".join(printed.split())


@pytest.mark.parametrize("value", ["abc", np.nan])
def test_control_characters_in_messages_are_escaped(folder, value):
    frame = pd.DataFrame({"slide": [CONTROLS] * 2, "u": [0.5, value], CONTROLS: [0.5, 1.0]})
    write_table(frame.rename(columns={CONTROLS: "v"}), folder / "x.csv", raw=True)
    write_table(frame.drop(columns="slide"), folder / f"{CONTROLS.strip()}.csv")
    for result in (
        run("predict", folder / "m", folder / "x.csv"),
        run("predict", folder / "m", folder / f"{CONTROLS.strip()}.csv"),
        run("predict", folder / f"absent{CONTROLS}", folder / "x.csv"),
        run("fit", folder / "x.csv", "--bag", "slide", "--label", CONTROLS, *QUICK, "-o", folder / "y"),
    ):
        assert result.exit_code == 2
        assert not any(letter in result.output for letter in "\x1b\x07\x9b\u202e\r")


def test_terminal_that_knows_only_ascii_gets_replacements():
    result = process("models", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"K?ck & de Freitas" in result.stdout


def test_title_in_another_encoding_is_shown_escaped(folder):
    title = b"\xff".decode("utf8", "surrogateescape")  # as Python hands it over
    done("report", folder / "m", folder / "d.csv", "--title", title, "-o", folder / "r.html")
    assert r"<title>\udcff" in (folder / "r.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------- refusals instead of tracebacks


def test_instance_labels_in_too_many_columns_are_refused(folder):
    frame = pd.read_csv(folder / "d.csv").assign(a=0, b=1)
    write_table(frame, folder / "two.csv")
    for command in ("report", "evaluate"):
        more = ("-o", folder / "r.html") if command == "report" else ()
        message = refused(command, folder / "m", folder / "two.csv", "--instance-label", "a,b", *more)
        assert "the model has one label: expected one column of labels, got shape" in message


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("verbose=abc", "verbose='abc': expected True, False or a whole number of at least 0"),
        ("verbose=-1", "verbose=-1: expected"),
        ("verbose=0.5", "verbose=0.5: expected"),
        ("jitter=1e300", r"jitter=1e+300: expected a number of at least 0 and below 1"),
        ("jitter=abc", "jitter='abc': expected"),
    ],
)
@pytest.mark.parametrize("model", ["bag-gp", "group-kernel-machine", "gpmil", "vgpmil", "miplgp", "mil-gp-probit"])
def test_verbose_and_jitter_are_checked_in_every_model(folder, model, setting, message):
    said = ("--candidates", "y") if model == "miplgp" else ("--label", "y")
    arguments = ("fit", folder / "d.csv", "--bag", "slide", *said, "--model", model, "-o", folder / "new")
    if model == "miplgp":
        arguments = ("fit", folder / "d.npz", "--label", "y", "--model", model, "-o", folder / "new")
    assert message in refused(*arguments, "--set", setting)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0, 1j] * 6), "'y' must hold numbers or text, got complex128"),
        (np.zeros((12, 0)), r"one entry per bag (12), got shape (12, 0)"),
        (np.zeros(12, dtype="M8[s]"), "'y' must hold numbers or text, got datetime64"),
    ],
)
def test_labels_of_an_archive_that_cannot_be_labels(folder, y, message):
    with np.load(folder / "d.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(folder / "odd.npz", **arrays | {"y": y})
    for command in (
        ("fit", folder / "odd.npz", *QUICK, "-o", folder / "new"),
        ("predict", folder / "m", folder / "odd.npz"),
    ):
        assert message in refused(*command)
